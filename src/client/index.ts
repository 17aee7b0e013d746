/**
 * `countersign/client`: the typed client, as an Effect layer ({@link Client}) and with promises ({@link connect}). Runs in every runtime
 * with `fetch`.
 */
export type {
  CallResult,
  CallOptions,
  PlainOutput,
  EffectCalls,
  CallError,
  CallInput,
  PlainInput,
  PromiseCalls
} from "./Call.ts"
export { Client, type ClientCalls, type ClientOptions } from "./Client.ts"
export { connect, type CountersignClient } from "./connect.ts"
export type { Govern, GovernResult, GovernError, GovernOptions } from "./govern.ts"
export type { RetryOptions } from "./retry.ts"
export type { StreamError, StreamOptions } from "./stream.ts"
