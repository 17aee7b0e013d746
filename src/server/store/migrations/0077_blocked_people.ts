import { Effect } from "effect"
import { comments } from "./comments.ts"
import { statements } from "./statements.ts"

/** People can be blocked, and the identity provider can end sessions: those of one sign-in by its session id, or all of a person. */
export default Effect.andThen(
  statements(
    `ALTER TABLE people
      ADD COLUMN blocked_at timestamptz,
      ADD COLUMN blocked_by_name text`,
    `ALTER TABLE console_sessions ADD COLUMN provider_session text COLLATE "C"`,
    `CREATE INDEX console_sessions_key ON console_sessions (org_id, key_id)`
  ),
  comments({
    people: [
      "People who signed in with an identity provider. Their names, rights and addresses are in api_keys.",
      {
        blocked_at: "When an administrator blocked the person; null: not blocked.",
        blocked_by_name: "Name of the administrator."
      }
    ],
    console_sessions: [
      "Signed-in console sessions of browsers.",
      {
        provider_session:
          "Session ID (sid) of the identity provider; null: it stated none, or an API key signed in."
      }
    ]
  })
)
