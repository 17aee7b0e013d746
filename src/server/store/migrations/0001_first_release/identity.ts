import { foldCase } from "../../foldCase.ts"

/** Organizations, API keys, people, their sessions and addresses, and the audit log. */
export const identity = `
-- Tenants. Every other tenant table has org_id first in its primary key.
CREATE TABLE organizations (
  org_id text COLLATE "C" NOT NULL, -- Id, org_….
  name text NOT NULL, -- Unique name, chosen by the operator.
  created_at timestamptz NOT NULL, -- When the organization was created.
  PRIMARY KEY (org_id)
);
CREATE UNIQUE INDEX organizations_name ON organizations (name);

-- API keys of people, agents and programs. A key is stored as a digest only.
CREATE TABLE api_keys (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  key_id text COLLATE "C" NOT NULL, -- Id, key_….
  public_id text COLLATE "C" NOT NULL, -- Public part of the key, which finds the row of a presented key.
  digest bytea NOT NULL, -- SHA-256 digest of the whole key.
  name text NOT NULL, -- Name shown wherever the key has acted.
  preset text, -- Preset that the key was created with; null: none.
  scopes text[], -- Scopes of the key; null: all current scopes of its preset.
  email text, -- Address that receives approval email; null: none.
  created_at timestamptz NOT NULL, -- When the key was created.
  expires_at timestamptz, -- When the key expires; null: never.
  revoked_at timestamptz, -- When the key was revoked; null: not revoked.
  created_by_id text COLLATE "C", -- API key that created the row; null: the operator, on the command line or at the first start.
  created_by_name text, -- Name of that key at the time; null: the operator.
  allowed_networks text[], -- Networks that requests with the key may come from, in CIDR notation; null: anywhere.
  revocation_reason text, -- requested: by a key or the operator; leaked: its text was reported; access_ended: the person who created it lost rights; null: requested, if the key is revoked.
  groups text[] NOT NULL DEFAULT '{}', -- Groups of the key, which quorums of approval rules name.
  rights_changed_at timestamptz, -- When its scopes or groups last changed; null: never. Its streams end then, and are authorized anew.
  PRIMARY KEY (org_id, key_id),
  FOREIGN KEY (org_id) REFERENCES organizations(org_id),
  CHECK ((scopes IS NOT NULL) OR (preset IS NOT NULL)),
  CHECK ((created_by_id IS NULL) = (created_by_name IS NULL)),
  CHECK (revocation_reason IN ('requested', 'leaked', 'access_ended'))
);
CREATE INDEX api_keys_address ON api_keys (org_id, ${foldCase("email")}) WHERE email IS NOT NULL;
CREATE INDEX api_keys_created_by ON api_keys (org_id, created_by_id) WHERE created_by_id IS NOT NULL;
CREATE INDEX api_keys_email ON api_keys (org_id, key_id) WHERE (email IS NOT NULL) AND (revoked_at IS NULL);
CREATE INDEX api_keys_ended ON api_keys (LEAST(revoked_at, expires_at)) WHERE (created_by_id IS NOT NULL) AND (LEAST(revoked_at, expires_at) IS NOT NULL);
CREATE UNIQUE INDEX api_keys_public_id ON api_keys (public_id);

-- When each API key was last used. Written at most once a minute for a key.
CREATE TABLE api_key_uses (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  key_id text COLLATE "C" NOT NULL, -- API key.
  last_used_at timestamptz NOT NULL, -- When a request with the key was last accepted.
  PRIMARY KEY (org_id, key_id)
) WITH (fillfactor=50);

-- People who signed in with an identity provider. Their names, rights and addresses are in api_keys.
CREATE TABLE people (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  key_id text COLLATE "C" NOT NULL, -- Row of api_keys that stands for the person. Nobody knows its text, so it authenticates no request.
  issuer text COLLATE "C" NOT NULL, -- Issuer of the identity provider.
  subject text COLLATE "C" NOT NULL, -- The provider's identifier of the person, which never changes.
  signed_in_at timestamptz NOT NULL, -- When the person last signed in.
  blocked_at timestamptz, -- When an administrator blocked the person; null: not blocked.
  blocked_by_name text, -- Name of the administrator.
  PRIMARY KEY (org_id, key_id),
  FOREIGN KEY (org_id, key_id) REFERENCES api_keys(org_id, key_id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX people_subject ON people (issuer, subject, org_id);

-- Signed-in console sessions of browsers.
CREATE TABLE console_sessions (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  digest bytea NOT NULL, -- SHA-256 digest of the session token in the cookie.
  key_id text COLLATE "C" NOT NULL, -- API key that signed in; the session ends with it.
  created_at timestamptz NOT NULL, -- When the browser signed in.
  expires_at timestamptz NOT NULL, -- When the session expires.
  session_id text COLLATE "C" NOT NULL DEFAULT ('cse_' || replace((gen_random_uuid())::text, '-', '')), -- Id, cse_….
  last_active_at timestamptz NOT NULL DEFAULT now(), -- When its user was last active, to within a minute.
  provider_session text COLLATE "C", -- Session ID (sid) of the identity provider; null: it stated none, or an API key signed in.
  browser text, -- Browser and system that signed in, such as "Firefox on Linux"; null: unknown.
  address text, -- Network address that the browser signed in from.
  PRIMARY KEY (org_id, digest),
  FOREIGN KEY (org_id, key_id) REFERENCES api_keys(org_id, key_id)
);
CREATE INDEX console_sessions_expiry ON console_sessions (org_id, expires_at);
CREATE UNIQUE INDEX console_sessions_id ON console_sessions (org_id, session_id);
CREATE INDEX console_sessions_key ON console_sessions (org_id, key_id);
CREATE INDEX console_sessions_provider ON console_sessions (provider_session) WHERE provider_session IS NOT NULL;

-- Responses of the identity provider that were used, until their sign-ins are too old to be completed. Of no organization: which one it is follows from the response.
CREATE TABLE used_sign_ins (
  state text COLLATE "C" NOT NULL, -- State of the sign-in, a random value of which the browser alone has the origin.
  used_at timestamptz NOT NULL, -- When its response was used.
  PRIMARY KEY (state)
);
CREATE INDEX used_sign_ins_age ON used_sign_ins (used_at);

-- Email addresses whose owners were asked to confirm them.
CREATE TABLE email_addresses (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  address text COLLATE "C" NOT NULL, -- Address, with its domain in lower case.
  event_id text COLLATE "C" NOT NULL, -- Id of the newest verification email as a delivery event.
  key_id text COLLATE "C" NOT NULL, -- API key with the address, for which that email was requested.
  requested_at timestamptz NOT NULL, -- When that email was requested.
  requests_full_at timestamptz NOT NULL, -- State of the rate limit of requests: when its token bucket is full again.
  verified_at timestamptz, -- When the owner last confirmed the address; null: never.
  PRIMARY KEY (org_id, address)
);
CREATE UNIQUE INDEX email_addresses_event ON email_addresses (org_id, event_id);
CREATE INDEX email_addresses_requested ON email_addresses (org_id, requested_at);

-- Usable links of verification emails. A link ends with its use and with its expiry.
CREATE TABLE email_verification_links (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  address text COLLATE "C" NOT NULL, -- Address that the link was sent to.
  token_digest bytea NOT NULL, -- SHA-256 digest of the token in the link.
  expires_at timestamptz NOT NULL, -- When the link expires.
  PRIMARY KEY (org_id, address, token_digest),
  FOREIGN KEY (org_id, address) REFERENCES email_addresses(org_id, address) ON DELETE CASCADE
);
CREATE UNIQUE INDEX email_verification_links_token ON email_verification_links (token_digest);

-- Invitations by email to use an API key, until 30 days after their end.
CREATE TABLE invitations (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  invitation_id text COLLATE "C" NOT NULL, -- Id, inv_….
  input json NOT NULL, -- API key to create, as the request to create it: its name, rights and address.
  event_id text COLLATE "C" NOT NULL, -- Id of the email as a delivery event.
  created_at timestamptz NOT NULL, -- When it was made.
  created_by_id text COLLATE "C" NOT NULL, -- API key that invited, and creates the new key.
  created_by_name text NOT NULL, -- Name of that key at the time.
  expires_at timestamptz NOT NULL, -- Until when it can be accepted.
  accepted_at timestamptz, -- When it was accepted; null: it was not.
  key_id text COLLATE "C", -- API key that accepting it created; null: it was not accepted.
  revoked_at timestamptz, -- When it was revoked; null: it was not.
  PRIMARY KEY (org_id, invitation_id),
  CHECK ((accepted_at IS NULL) = (key_id IS NULL)),
  CHECK (accepted_at IS NULL OR revoked_at IS NULL)
);
CREATE UNIQUE INDEX invitations_event ON invitations (org_id, event_id);

-- Usable links of invitations. Each attempt to send an email makes one. A link ends with its use and with its invitation.
CREATE TABLE invitation_links (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  invitation_id text COLLATE "C" NOT NULL, -- Invitation that the link accepts.
  token_digest bytea NOT NULL, -- SHA-256 digest of the secret in the link.
  created_at timestamptz NOT NULL, -- When the link was made.
  PRIMARY KEY (org_id, token_digest),
  FOREIGN KEY (org_id, invitation_id) REFERENCES invitations(org_id, invitation_id) ON DELETE CASCADE
);
CREATE INDEX invitation_links_invitation ON invitation_links (org_id, invitation_id);

-- Append-only log of changes, each written in the transaction of the change. Only retention deletes entries, from the beginning.
CREATE TABLE audit_log (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  entry_id text COLLATE "C" NOT NULL, -- Id, ordered by creation time.
  action text COLLATE "C" NOT NULL, -- What was done, such as key.revoked.
  target_id text COLLATE "C" NOT NULL, -- Id of the resource that was changed.
  actor_id text COLLATE "C", -- API key that did it; null: the operator or the service itself.
  actor_name text, -- Name of that key at the time; null: the operator or the service itself.
  occurred_at timestamptz NOT NULL, -- When it was done.
  request_id text COLLATE "C", -- Id of the API request; null: not done by a request.
  detail json NOT NULL, -- Details of the action, as a JSON object without secrets.
  PRIMARY KEY (org_id, entry_id),
  CHECK ((actor_id IS NULL) = (actor_name IS NULL))
);
CREATE INDEX audit_log_action ON audit_log (org_id, action, entry_id);
CREATE INDEX audit_log_actor ON audit_log (org_id, actor_id, entry_id);
CREATE INDEX audit_log_age ON audit_log USING brin (occurred_at) WITH (pages_per_range='16');
CREATE INDEX audit_log_target ON audit_log (org_id, target_id, entry_id);

-- Hash chain of the audit log: a row for each entry, in the order of commits. Retention deletes from the beginning.
CREATE TABLE audit_chain (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  "position" bigint NOT NULL, -- Number of the entry in the organization's chain, from 1.
  entry_id text COLLATE "C" NOT NULL, -- Entry of the audit log.
  previous_digest bytea NOT NULL, -- Digest at the position before; zeros at position 1.
  digest bytea NOT NULL, -- SHA-256 of the previous digest, the position and the entry.
  PRIMARY KEY (org_id, "position")
);
CREATE UNIQUE INDEX audit_chain_entry ON audit_chain (org_id, entry_id);

-- Newest position of each organization's audit chain. Its lock orders concurrent commits.
CREATE TABLE audit_heads (
  org_id text COLLATE "C" NOT NULL, -- Organization that owns the row.
  "position" bigint NOT NULL, -- Newest position.
  previous_digest bytea NOT NULL, -- Digest at the position before; zeros at position 0 and 1.
  digest bytea NOT NULL, -- Digest at the newest position.
  PRIMARY KEY (org_id)
) WITH (fillfactor=50);
`
