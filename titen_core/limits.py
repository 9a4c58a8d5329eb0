"""Every bound of the service, by name; units come last in the name.

Sizes are UTF-8 bytes, times are milliseconds unless the name says otherwise. The reference page
`docs/reference/limits.md` is checked against this module by a test.
"""

# Fields of a memory (contract: "A memory").
CONTENT_BYTES = 8 * 1024
NAME_BYTES = 256  # subject_id, agent_id, run_id, key, source.type, source.ref
TAGS_COUNT = 16
TAG_BYTES = 64
METADATA_BYTES = 8 * 1024
TIME_MAX_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z
VERSION_MAX = 2**31 - 1

# Requests.
BODY_BYTES = 256 * 1024
IMPORT_LINE_BYTES = 1024 * 1024
IMPORT_BODY_BYTES = 8 * 1024 * 1024
MESSAGES_BYTES = 64 * 1024
MESSAGES_COUNT = 256
JSON_DEPTH = 64
METADATA_DEPTH = JSON_DEPTH - 1  # what a body that nests JSON_DEPTH deep has room for
IMPORT_LINE_DEPTH = METADATA_DEPTH + 4  # the record, its events, one of them and its snapshot, around the metadata
QUERY_BYTES = 8 * 1024
IDEMPOTENCY_KEY_BYTES = 255
IDEMPOTENCY_KEPT_MS = 24 * 60 * 60 * 1000
FILTER_VALUES_COUNT = 64

# Pages.
SEARCH_LIMIT_MAX = 20
SEARCH_LIMIT_DEFAULT = 5
LIST_LIMIT_MAX = 100
LIST_LIMIT_DEFAULT = 20
EXPORT_LIMIT_MAX = 100
EXPORT_PAGE_EVENTS = 1_000  # a page ends with the record that passes it
IMPORT_STEP_RECORDS = 100
IMPORT_STEP_BYTES = 1_000_000
IMPORT_STEPS_COUNT = 5  # a call stops after so many and says where to go on: D1 takes 50 queries a request
IMPORT_ROUNDS_COUNT = 8  # ... or after so many rounds of 6 queries; twins and other writers cost a step up to 3
IMPORT_LINES_COUNT = 1_000  # ... or after so many lines, good or bad
IMPORT_ERRORS_REPORTED = 100
PURGE_STEP_ROWS = 100
EXPIRING_WITHIN_MAX_MS = 366 * 24 * 60 * 60 * 1000
TAG_NAMES_COUNT = 1000

# Recall.
CHANNEL_CANDIDATES_FACTOR = 3  # each channel brings limit * factor ...
CHANNEL_CANDIDATES_MAX = 60
TEXT_POOL_ROWS = 256  # best text matches examined before filters that have no term in the index
QUERY_TERMS_COUNT = 48  # bits of an integer that JavaScript can hold exactly, with room to spare
RRF_K = 60
COVERAGE_GATE = 0.25
POSTING_BUDGET_MIN = 2_000
POSTING_BUDGET_SHARE = 5  # ... or a fifth of the tenant's rows
OVERLAY_ROWS = 64
OVERLAY_EXACT_ROWS = 16  # at least so many of them are compared exactly
OVERLAY_WINDOW_MS = 5 * 60 * 1000

# The digest.
DIGEST_TOKENS_MIN = 64
DIGEST_TOKENS_MAX = 32_000
DIGEST_TOKENS_DEFAULT = 2_000
DIGEST_BLOCK_TOKENS_MIN = 12  # the shortest block there can be; so many rows at most fit a budget ...
DIGEST_CRITICAL_ROWS = 4_000  # ... but the critical ones are read past it, up to this number

# Extraction from conversations.
EXTRACTED_COUNT = 10
EXTRACT_REFUSED_COUNT = 50
EXTRACT_REFUSED_CHARS = 200
CHAT_DEADLINE_MS = 60_000
CHAT_ANSWER_TOKENS = 4_096  # asked of providers that would stop sooner
CHAT_ANSWER_BYTES = 1024 * 1024

# Embedding and the outbox.
EMBED_WRITE_DEADLINE_MS = 2_000
EMBED_READ_DEADLINE_MS = 1_000
EMBED_BATCH_TEXTS = 32
EMBED_DRAIN_DEADLINE_MS = 60_000
PROBE_KEPT_MS = 60_000
PROBE_FAILED_KEPT_MS = 500
PROBE_DEADLINE_MS = 1_000
OUTBOX_ATTEMPTS_MAX = 8
OUTBOX_BACKOFF_MIN_MS = 1_000
OUTBOX_BACKOFF_MAX_MS = 300_000
OUTBOX_LEASE_MS = 120_000
DRAIN_ITEMS = 32
REINDEX_STEP_ROWS = 500
REINDEX_ATTEMPTS = 6  # of one batch, while the embedder is away
OUTAGE_WAIT_SHARE = 8  # after an outage: an eighth of the time waited so far ...
OUTAGE_WAIT_MAX_MS = 30_000  # ... between OUTBOX_BACKOFF_MIN_MS and this
INDEX_LOOK_AGAIN_MS = 10_000
INDEX_CLOCK_SKEW_MS = 2_000

# Races: how often a compare-and-swap is tried again before the caller is told BUSY.
CAS_ATTEMPTS = 64

# SQL, as D1 has it (developers.cloudflare.com/d1/platform/limits); enforced on SQLite too.
SQL_PARAMS_COUNT = 100
SQL_TEXT_BYTES = 100_000
SQL_VALUE_BYTES = 2_000_000

# Keys.
KEY_SECRET_BYTES = 32
LABEL_BYTES = 128
KEYS_PER_TENANT_COUNT = 1_000

# Sign-in tokens of humans; JWT times are seconds.
JWT_SECRET_BYTES = 32
JWT_CHARS = 4_096
JWT_LIFETIME_MAX_S = 24 * 60 * 60
JWT_LIFETIME_DEFAULT_S = 8 * 60 * 60
JWT_CLOCK_SKEW_S = 30
