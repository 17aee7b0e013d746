import { Effect } from "effect"
import { InsufficientScope } from "../../api/Problems.ts"
import type { Principal } from "../../domain/identity/Principal.ts"
import type { Scope } from "../../domain/identity/Scope.ts"

/** The scopes that read the content which telemetry can export: inputs, answers, corrections, arguments and results. */
const CONTENT_SCOPES: ReadonlyArray<Scope> = ["runs.read", "feedback.read", "sessions.read", "approvals.read"]

/** Fails unless the caller could read the content itself. `pointer`: the member of the request that lets it out. */
export const requireContentScopes = ({ scopes }: Principal, pointer: string) => {
  const missing = CONTENT_SCOPES.find((scope) => !scopes.has(scope))
  if (missing === undefined) return Effect.void
  const detail = `This key cannot let content out, because it does not have the scope ${missing}, which reads it.`
  return Effect.fail(
    new InsufficientScope({ detail, required_scope: missing, errors: [{ pointer, detail }] })
  )
}
