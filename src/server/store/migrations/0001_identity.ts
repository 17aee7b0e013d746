import { statements } from "./statements.ts"

/** Organizations and their API keys. A key is found by its public id, because a request does not name its organization. */
export default statements(
  `CREATE TABLE organizations (
    org_id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    created_at timestamptz NOT NULL
  )`,
  `CREATE UNIQUE INDEX organizations_name ON organizations (name)`,
  `CREATE TABLE api_keys (
    org_id text COLLATE "C" NOT NULL REFERENCES organizations (org_id),
    key_id text COLLATE "C" NOT NULL,
    public_id text COLLATE "C" NOT NULL,
    digest bytea NOT NULL,
    name text NOT NULL,
    preset text,
    scopes text[] NOT NULL,
    email text,
    created_at timestamptz NOT NULL,
    created_by json,
    expires_at timestamptz,
    revoked_at timestamptz,
    PRIMARY KEY (org_id, key_id)
  )`,
  `CREATE UNIQUE INDEX api_keys_public_id ON api_keys (public_id)`
)
