/**
 * `countersign/testing`: the service in this process with a temporary database, whose time a test moves. With promises
 * (`startCountersign`), or as a layer (`Countersign`). The project's own tests use it.
 */
export { Countersign, type TestOptions } from "./Countersign.ts"
export {
  type ApprovalPattern,
  approves,
  type PersonOptions,
  type RejectOptions,
  rejects,
  type ScriptedPerson
} from "./people.ts"
export { fails, type ReceivedRequest, type ReceiverScript, succeeds, type TestReceiver } from "./receivers.ts"
export { startCountersign, type StartOptions, type TestService } from "./startCountersign.ts"
