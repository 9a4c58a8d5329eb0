-- The first schema. Plain SQL for both `wrangler d1 migrations apply` and `titen migrate`.
-- Times are integer milliseconds since the epoch, UTC. Once landed, never edited.

CREATE TABLE titen_meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT;

CREATE TABLE tenants (
  num INTEGER PRIMARY KEY AUTOINCREMENT,  -- short name inside the text index, never reused
  id TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE principals (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  name TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('human', 'agent', 'service')),
  created_at INTEGER NOT NULL,
  UNIQUE (tenant_id, name)
) STRICT;

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  principal_id TEXT NOT NULL REFERENCES principals (id),
  role TEXT NOT NULL CHECK (role IN ('reader', 'writer', 'admin')),
  subject_id TEXT,
  secret_hash TEXT NOT NULL,              -- SHA-256 of the secret, hex
  label TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT;

CREATE INDEX api_keys_by_tenant ON api_keys (tenant_id, created_at, id);
CREATE INDEX api_keys_by_principal ON api_keys (principal_id);

CREATE TABLE memories (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,  -- row id in every index, never reused
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  id TEXT NOT NULL,
  identity TEXT NOT NULL,                 -- decides duplicates; see titen_core/content.py
  subject_id TEXT NOT NULL,
  agent_id TEXT,
  run_id TEXT,
  kind TEXT NOT NULL CHECK (kind IN ('semantic', 'episodic', 'procedural')),
  category TEXT CHECK (category IN ('identity', 'preference', 'fact', 'project', 'skill', 'mistake', 'context', 'note')),
  key TEXT,
  tags TEXT NOT NULL DEFAULT '[]',        -- JSON array, as given
  tags_folded TEXT NOT NULL DEFAULT '[]', -- JSON array, for comparison
  priority TEXT NOT NULL CHECK (priority IN ('low', 'normal', 'high', 'critical')),
  author TEXT NOT NULL CHECK (author IN ('human', 'agent', 'service')),
  verified INTEGER NOT NULL CHECK (verified IN (0, 1)),
  verified_at INTEGER,
  verified_by TEXT,
  confidence REAL NOT NULL CHECK (confidence BETWEEN 0.0 AND 1.0),
  confidence_given INTEGER NOT NULL CHECK (confidence_given IN (0, 1)),
  source_type TEXT,
  source_ref TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  expires_at INTEGER,
  deleted_at INTEGER,
  version INTEGER NOT NULL CHECK (version >= 1),
  content_version INTEGER NOT NULL,       -- the version at which the content last changed
  index_status TEXT NOT NULL CHECK (index_status IN ('pending', 'ready', 'error')),
  op TEXT NOT NULL,                       -- the operation that wrote the row last
  op_kind TEXT NOT NULL,                  -- ... and what it did
  op_given INTEGER NOT NULL,              -- ... and which optional fields it was given, as bits
  content TEXT NOT NULL,                  -- long text last, so that scans of the rest stay narrow
  metadata TEXT NOT NULL DEFAULT '{}',
  UNIQUE (tenant_id, id),
  UNIQUE (tenant_id, identity),
  CHECK (key IS NULL OR category IS NOT NULL)
) STRICT;

CREATE INDEX memories_by_created ON memories (tenant_id, created_at, id);
CREATE INDEX memories_by_subject ON memories (tenant_id, subject_id, created_at, id);
CREATE INDEX memories_by_updated ON memories (tenant_id, updated_at);
CREATE INDEX memories_by_expiry ON memories (tenant_id, expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE memory_events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  tenant_id TEXT NOT NULL REFERENCES tenants (id),
  memory_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  id TEXT NOT NULL,
  event_type TEXT NOT NULL CHECK (event_type IN ('add', 'update', 'delete', 'restore', 'verify')),
  actor TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  snapshot TEXT NOT NULL,
  UNIQUE (tenant_id, memory_id, version)
) STRICT;

-- Canonical vectors: float32 as base64 text, so that any index can be rebuilt with no model call.
CREATE TABLE memory_vectors (
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  tenant_id TEXT NOT NULL,
  content_version INTEGER NOT NULL,
  vector TEXT NOT NULL,
  vector_int8 TEXT NOT NULL,
  indexed_version INTEGER,                -- the content_version last sent to a remote index
  PRIMARY KEY (seq, fingerprint)
) STRICT;

-- What still has to reach the vector index. One row a memory, reconciled against the canonical row.
CREATE TABLE vector_outbox (
  seq INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  target INTEGER NOT NULL,                -- memories.content_version to reach
  attempts INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,      -- 1 = given up until repair
  next_attempt_at INTEGER NOT NULL,
  sent_at INTEGER,                        -- accepted by a remote index that does not show it yet
  lease TEXT,
  lease_until INTEGER,
  last_error TEXT,
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX vector_outbox_due ON vector_outbox (failed, next_attempt_at);
CREATE INDEX vector_outbox_leased ON vector_outbox (lease) WHERE lease IS NOT NULL;
CREATE INDEX vector_outbox_by_tenant ON vector_outbox (tenant_id, failed, created_at);

CREATE TABLE idempotency (
  key_id TEXT NOT NULL,
  token TEXT NOT NULL,                    -- SHA-256 of the Idempotency-Key
  tenant_id TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  memory_id TEXT NOT NULL,
  version INTEGER NOT NULL,
  outcome TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (key_id, token)
) STRICT, WITHOUT ROWID;

CREATE INDEX idempotency_by_age ON idempotency (created_at);
CREATE INDEX idempotency_by_memory ON idempotency (tenant_id, memory_id);

-- Full text: terms are made in Python and carry their tenant (titen_core/sql/text_index.py).
CREATE VIRTUAL TABLE memory_text USING fts5(terms, content='', contentless_delete=1, detail=none, tokenize='ascii');
CREATE VIRTUAL TABLE memory_vocab USING fts5vocab(memory_text, 'row');
