// The TypeScript client of 2026: `sdk2.mjs TARGET MODE`, as official.py.
// MODE: "default" (what it does unasked), "auto", or a revision to insist on.

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { tour } from "./tour.mjs";

const target = JSON.parse(process.argv[2]);
const mode = process.argv[3];
const negotiation = { default: {}, auto: { versionNegotiation: { mode: "auto" } } };
const options = negotiation[mode] ?? { versionNegotiation: { mode: { pin: mode } } };
const client = new Client({ name: "titen-tests", version: "1" }, options);
const transport = target.command
  ? new StdioClientTransport({ command: target.command, args: target.args, env: target.env })
  : new StreamableHTTPClientTransport(new URL(target.url), {
      requestInit: { headers: { Authorization: `Bearer ${target.key}` } },
    });
console.log(JSON.stringify(await tour(client, transport, target.subject)));
