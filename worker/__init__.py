"""The Cloudflare home: the entry that is shipped, and the scripts that prepare it."""
