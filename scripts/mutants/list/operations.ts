/** Mutants of what operators rely on: the log of requests and of slow statements, `doctor`, and the support bundle. */
import type { ListedMutant } from "../list.ts"

const log = "server/http/RequestLog.ts"
const logTests = ["server/http/RequestLog.test.ts"]
const statements = "server/store/Database/slowStatements.ts"
const statementTests = ["server/store/Database/slowStatements.test.ts"]
const notify = "server/store/PgNotify.ts"
const notifyTests = ["server/store/PgNotify.test.ts"]
const databaseChecks = "cli/doctor/databaseChecks.ts"
const machineChecks = "cli/doctor/machineChecks.ts"
const doctorTests = ["cli/doctor.test.ts"]
const bundleTests = ["cli/supportBundle.test.ts"]

export const operations: ReadonlyArray<ListedMutant> = [
  {
    file: log,
    from: 'const path = url.split("?", 1)[0] ?? ""',
    to: "const path = url",
    tests: logTests
  },
  {
    file: log,
    from: 'return path.startsWith("/console/") ? "/console/*" : null',
    to: "return path",
    tests: logTests
  },
  {
    file: log,
    from: "const isKept = isSlow || status >= INTERNAL_ERROR",
    to: "const isKept = isSlow",
    tests: logTests
  },
  {
    file: log,
    from: "const isKept = isSlow || status >= INTERNAL_ERROR",
    to: "const isKept = status >= INTERNAL_ERROR",
    tests: logTests
  },
  {
    file: log,
    from: "responseMillis >= slowMillis && !facts.waits",
    to: "responseMillis >= slowMillis",
    tests: logTests
  },
  { file: log, from: "isKept ? 1 : sampleRatio", to: "sampleRatio", tests: logTests },
  { file: log, from: "bytes += chunk.byteLength", to: "", tests: logTests },
  { file: log, from: "/^(?!0{32})[0-9a-f]{32}$/", to: "/^[0-9a-f]{32}$/", tests: logTests },
  {
    file: log,
    from: "Exit.isFailure(exit) && Exit.hasInterrupts(exit)",
    to: "false",
    tests: logTests
  },
  {
    file: statements,
    from: "if (lines === MAX_LINES) {",
    to: "if (false) {",
    tests: statementTests
  },
  { file: statements, from: "...(omitted > 0 ? { omitted } : {})", to: "", tests: statementTests },
  { file: notify, from: "return refusals === 1", to: "return true", tests: notifyTests },
  { file: notify, from: "RECONNECT_MILLIS * 2 ** refusals", to: "RECONNECT_MILLIS", tests: notifyTests },
  { file: databaseChecks, from: "if (pending.length > 0) {", to: "if (false) {", tests: doctorTests },
  { file: databaseChecks, from: "return unknown.length > 0", to: "return false", tests: doctorTests },
  {
    file: databaseChecks,
    from: "return limit - used < REPLICA_CONNECTIONS",
    to: "return limit < used",
    tests: doctorTests
  },
  {
    file: databaseChecks,
    from: "return millis < CLOCK_FAILURE_MILLIS ? warning(summary, advice)",
    to: "return true ? warning(summary, advice)",
    tests: doctorTests
  },
  {
    file: machineChecks,
    from: "if (free < FULL_BYTES) return failure(summary, advice)",
    to: "",
    tests: doctorTests
  },
  {
    file: machineChecks,
    from: 'return textOfVariable(variables, "NODE_ENV") === "production"',
    to: "return false",
    tests: doctorTests
  },
  { file: "cli/supportBundle/scrub.ts", from: ".replaceAll(EMAIL, REDACTED)", to: "", tests: bundleTests },
  {
    file: "cli/supportBundle/scrub.ts",
    from: "return [part, decodeURIComponent(part)]",
    to: "return [part]",
    tests: bundleTests
  },
  {
    file: "cli/supportBundle/scrub.ts",
    from: 'return [text, ...text.split(",").map((part) => part.trim()), ...credentialsOf(text)]',
    to: "return [text]",
    tests: bundleTests
  },
  {
    file: "cli/supportBundle/logTail.ts",
    from: "Object.fromEntries(shown.map((name) => [name, annotations[name]]))",
    to: "annotations",
    tests: bundleTests
  },
  {
    file: "cli/supportBundle/logTail.ts",
    from: "{ cause: placesOf(cause) }",
    to: "{ cause }",
    tests: bundleTests
  },
  {
    file: "cli/supportBundle/supportBundle.ts",
    from: 'check.name === "settings" && check.status === "failure"',
    to: "false",
    tests: bundleTests
  },
  {
    file: "cli/supportBundle/supportBundle.ts",
    from: 'flag: "wx", mode: 0o600',
    to: 'flag: "wx", mode: 0o644',
    tests: bundleTests
  }
]
