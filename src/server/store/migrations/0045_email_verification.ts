import { Effect } from "effect"
import { comments, orgId } from "./comments.ts"
import { statements } from "./statements.ts"

/** Email addresses whose owners were asked to confirm them. No owner of an existing address has been asked. */
export default Effect.andThen(
  statements(
    `CREATE TABLE email_addresses (
      org_id text COLLATE "C" NOT NULL,
      address text COLLATE "C" NOT NULL,
      event_id text COLLATE "C" NOT NULL,
      key_id text COLLATE "C" NOT NULL,
      requested_at timestamptz NOT NULL,
      requests_full_at timestamptz NOT NULL,
      verified_at timestamptz,
      PRIMARY KEY (org_id, address)
    )`,
    `CREATE UNIQUE INDEX email_addresses_event ON email_addresses (org_id, event_id)`,
    `CREATE INDEX email_addresses_requested ON email_addresses (org_id, requested_at)`,
    `CREATE TABLE email_verification_links (
      org_id text COLLATE "C" NOT NULL,
      address text COLLATE "C" NOT NULL,
      token_digest bytea NOT NULL,
      expires_at timestamptz NOT NULL,
      PRIMARY KEY (org_id, address, token_digest),
      FOREIGN KEY (org_id, address) REFERENCES email_addresses (org_id, address) ON DELETE CASCADE
    )`,
    `CREATE UNIQUE INDEX email_verification_links_token ON email_verification_links (token_digest)`
  ),
  comments({
    email_addresses: [
      "Email addresses whose owners were asked to confirm them.",
      {
        ...orgId,
        address: "Address, with its domain in lower case.",
        event_id: "Id of the newest verification email as a delivery event.",
        key_id: "API key with the address, for which that email was requested.",
        requested_at: "When that email was requested.",
        requests_full_at: "State of the rate limit of requests: when its token bucket is full again.",
        verified_at: "When the owner last confirmed the address; null: never."
      }
    ],
    email_verification_links: [
      "Usable links of verification emails. A link ends with its use and with its expiry.",
      {
        ...orgId,
        address: "Address that the link was sent to.",
        token_digest: "SHA-256 digest of the token in the link.",
        expires_at: "When the link expires."
      }
    ]
  })
)
