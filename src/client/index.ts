/**
 * `countersign/client`: the typed client, with promises ({@link connect}) and as an Effect layer ({@link Client}). Runs in every runtime
 * with `fetch`.
 */
export type { CallError, CallInput, CallResult, EffectCalls } from "./Call.ts"
export { Client, type ClientCalls, type ClientLayerOptions } from "./Client.ts"
export * from "./connect/index.ts"
export type {
  ClaimedResult,
  Execute,
  ExecuteEffectOptions,
  Govern,
  GovernError,
  GovernOptions,
  GovernResult
} from "./govern.ts"
export type { RetryOptions } from "./retry.ts"
export type { EventStreamOptions, StreamError, StreamEvents } from "./stream.ts"
