import { comments, orgId } from "./comments.ts"

/** Comments on organizations, keys, the audit log and other tables of the service as a whole. */
export default comments({
  organizations: [
    "Tenants. Every other tenant table has org_id first in its primary key.",
    {
      org_id: "Id, org_….",
      name: "Unique name, chosen by the operator.",
      created_at: "When the organization was created."
    }
  ],
  api_keys: [
    "API keys of people, agents and programs. A key is stored as a digest only.",
    {
      ...orgId,
      key_id: "Id, key_….",
      public_id: "Public part of the key, which finds the row of a presented key.",
      digest: "SHA-256 digest of the whole key.",
      name: "Name shown wherever the key has acted.",
      preset: "Preset that the key was created with; null: none.",
      scopes: "Scopes of the key; null: all current scopes of its preset.",
      email: "Address that receives approval email; null: none.",
      created_at: "When the key was created.",
      expires_at: "When the key expires; null: never.",
      revoked_at: "When the key was revoked; null: not revoked.",
      created_by_id:
        "API key that created the row; null: the operator, on the command line or at the first start.",
      created_by_name: "Name of that key at the time; null: the operator."
    }
  ],
  audit_log: [
    "Append-only log of changes, each written in the transaction of the change. A trigger rejects updates and early deletes.",
    {
      ...orgId,
      entry_id: "Id, ordered by creation time.",
      action: "What was done, such as key.revoked.",
      target_id: "Id of the resource that was changed.",
      actor_id: "API key that did it; null: the operator or the service itself.",
      actor_name: "Name of that key at the time; null: the operator or the service itself.",
      occurred_at: "When it was done.",
      request_id: "Id of the API request; null: not done by a request.",
      detail: "Details of the action, as a JSON object without secrets."
    }
  ],
  idempotency_keys: [
    "Idempotency keys of requests and the sealed responses to repeat. Kept for 24 hours.",
    {
      ...orgId,
      operation: "Operation that the key was sent to, group.endpoint.",
      key: "Value of the Idempotency-Key header.",
      fingerprint:
        "SHA-256 digest of the caller and the request: a different request with the same key is rejected.",
      created_at: "When the key was claimed.",
      answer: "Sealed response; null: the request is in progress."
    }
  ],
  console_sessions: [
    "Signed-in console sessions of browsers.",
    {
      ...orgId,
      digest: "SHA-256 digest of the session token in the cookie.",
      key_id: "API key that signed in; the session ends with it.",
      created_at: "When the browser signed in.",
      expires_at: "When the session expires."
    }
  ],
  master_keys: [
    "Master keys that have sealed a secret in this database. A start without one that is still needed is refused.",
    {
      key_id: "Id derived from the key by a digest; the key itself is never stored.",
      first_used_at: "When a replica first started with this key as the sealing key."
    }
  ],
  secret_changes: [
    "Version of each organization's credentials, raised by triggers on the tables that hold them. Caches for redaction compare it.",
    {
      ...orgId,
      change_count: "Number of committed changes of credentials."
    }
  ],
  schema_migrations: [
    "Migrations that have been applied.",
    {
      migration_id: "Number of the migration.",
      created_at: "When the migration was applied.",
      name: "Name of the migration, as its file has it."
    }
  ]
})
