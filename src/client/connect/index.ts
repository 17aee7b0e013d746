/**
 * `countersign/connect`: the promise client alone, without the Effect library behind `countersign/client`, which
 * exports all of this too. Runs in every runtime with `fetch`.
 */
export type { ClientOptions } from "../ClientOptions.ts"
export { connect, type CountersignClient } from "../connect.ts"
export { ServiceUnreachable } from "../ServiceUnreachable.ts"
export type { StreamOptions } from "../StreamOptions.ts"
export { UnexpectedResponse } from "../UnexpectedResponse.ts"
export type { CallOptions } from "./CallOptions.ts"
export type { CallPromise, CallResponse, Pages, RateLimit } from "./CallPromise.ts"
export { ClientClosed } from "./ClientClosed.ts"
export { DecisionTimeout } from "./DecisionTimeout.ts"
export type { Duration } from "./Duration.ts"
export type { ClaimedDecision, ExecutedStep, ExecuteOptions, ExecutionFault } from "./execute.ts"
export type { GovernedDecision, WaitOptions } from "./govern.ts"
export type * from "./generated/Operations.ts"
export type { Log, LoggedAttempt } from "./Log.ts"
export { type FieldError, isProblem, type Problem, type ProblemCode, type ServiceProblem } from "./Problem.ts"
