import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/**
 * Adds the last use of keys, their allowed networks, and the reason of their revocation. The time of use has a table of
 * its own, because it is written every minute and must not wait for locks on the key.
 */
export default Effect.andThen(
  statements(
    `ALTER TABLE api_keys
      ADD COLUMN allowed_networks text[],
      ADD COLUMN revocation_reason text CHECK (revocation_reason IN ('requested', 'leaked'))`,
    `CREATE TABLE api_key_uses (
      org_id text COLLATE "C" NOT NULL,
      key_id text COLLATE "C" NOT NULL,
      last_used_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, key_id)
    ) WITH (fillfactor = 50)`,
    `COMMENT ON COLUMN api_keys.allowed_networks IS 'Networks that requests with the key may come from, in CIDR notation; null: anywhere.'`,
    `COMMENT ON COLUMN api_keys.revocation_reason IS 'requested: by a key or the operator; leaked: its text was reported; null: requested, if the key is revoked.'`
  ),
  comments({
    api_key_uses: [
      "When each API key was last used. Written at most once a minute for a key.",
      { ...orgId, key_id: "API key.", last_used_at: "When a request with the key was last accepted." }
    ]
  })
)
