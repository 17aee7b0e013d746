import type { Claim } from "../../client/connect/generated/Operations.ts"

/** A tool's context with the idempotency key of the claim. */
export const withIdempotencyKey = <Context extends object>(
  context: Context,
  claim: Claim | undefined
): Context & { readonly idempotencyKey?: string } =>
  claim === undefined ? context : { ...context, idempotencyKey: claim.idempotency_key }
