/**
 * `countersign/client`: the typed client, with promises ({@link connect}) and as an Effect layer ({@link Client}). Runs in every runtime
 * with `fetch`.
 */
export type { CallError, CallInput, CallResult, EffectCalls } from "./Call.ts"
export { Client, type ClientCalls } from "./Client.ts"
export type { ClientOptions, RetryOptions } from "./ClientOptions.ts"
export { connect, type CountersignClient } from "./connect.ts"
export type { CallOptions } from "./connect/CallOptions.ts"
export { DecisionTimeout } from "./connect/DecisionTimeout.ts"
export type { GovernedDecision, WaitOptions } from "./connect/govern.ts"
export type * from "./connect/Operations.ts"
export {
  type FieldError,
  isProblem,
  type Problem,
  type ProblemCode,
  type ServiceProblem
} from "./connect/Problem.ts"
export type { Govern, GovernError, GovernOptions, GovernResult } from "./govern.ts"
export { ServiceUnreachable } from "./ServiceUnreachable.ts"
export type { StreamError } from "./stream.ts"
export type { StreamOptions } from "./StreamOptions.ts"
export { UnexpectedResponse } from "./UnexpectedResponse.ts"
