/**
 * `countersign/client`: the typed client, as an Effect layer ({@link Client}) and as plain promises ({@link connect}). Runs wherever
 * `fetch` is.
 */
export type { Answer, CallOptions, Dated, EffectCalls, Failure, Input, Plain, PromiseCalls } from "./Call.ts"
export { Client, type ClientCalls, type ClientOptions } from "./Client.ts"
export { connect, type CountersignClient } from "./connect.ts"
export type { Govern, Governed, GovernFailure, GovernOptions } from "./govern.ts"
export type { RetryOptions } from "./retry.ts"
export type { StreamFailure, StreamOptions } from "./stream.ts"
