/**
 * `countersign/testing`: the service in this process with a temporary database, for tests that compose layers. The project's own tests use
 * it.
 */
export { Countersign, type TestOptions } from "./Countersign.ts"
