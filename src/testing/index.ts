/**
 * `countersign/testing`: the service in process over a throw-away store, for tests that compose layers. It is what the project's own
 * tests use.
 */
export { Countersign, type TestOptions } from "./Countersign.ts"
