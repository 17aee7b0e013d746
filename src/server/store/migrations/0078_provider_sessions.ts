import { statements } from "./statements.ts"

/** A logout at the identity provider may name nothing but its session. */
export default statements(
  `CREATE INDEX console_sessions_provider ON console_sessions (provider_session) WHERE provider_session IS NOT NULL`
)
