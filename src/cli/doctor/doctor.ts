import { Console, Effect, Schema } from "effect"
import { styleText } from "node:util"
import { escapeInvisible } from "../escapeInvisible.ts"
import { type CheckResult, type CheckStatus, plural } from "./Check.ts"
import { diagnose, type Diagnosis } from "./diagnose.ts"

/** A check found a failure. */
export class DoctorFailed extends Schema.TaggedError<DoctorFailed>()("DoctorFailed", {
  message: Schema.String
}) {}

const styles: Readonly<Record<CheckStatus, Parameters<typeof styleText>[0]>> = {
  ok: "green",
  warning: "yellow",
  failure: "red",
  skipped: "dim"
}

const NAME_WIDTH = 13
const STATUS_WIDTH = 9

const formatCheck = ({ advice, name, status, summary }: CheckResult): string => {
  const first = `${styleText(styles[status], status.padEnd(STATUS_WIDTH), { stream: process.stdout })}${name.padEnd(NAME_WIDTH)}${escapeInvisible(summary)}`
  return advice === null ? first : `${first}\n${" ".repeat(STATUS_WIDTH + NAME_WIDTH)}${advice}`
}

/** The diagnosis for people. */
export const formatDiagnosis = ({ checks }: Diagnosis): string => {
  const count = (status: CheckStatus) => checks.filter((check) => check.status === status).length
  return [
    ...checks.map(formatCheck),
    "",
    `${checks.length} checks: ${count("ok")} ok, ${plural(count("warning"), "warning", "warnings")}, ${plural(count("failure"), "failure", "failures")}, ${count("skipped")} skipped`
  ].join("\n")
}

/** Prints the diagnosis, and fails if a check did. */
export const doctor = Effect.fnUntraced(function* ({ json }: { readonly json: boolean }) {
  const diagnosis = yield* diagnose
  yield* Console.log(json ? JSON.stringify(diagnosis, null, 2) : formatDiagnosis(diagnosis))
  if (diagnosis.status !== "failure") return
  const failed = diagnosis.checks.filter(({ status }) => status === "failure").map(({ name }) => name)
  return yield* new DoctorFailed({ message: `checks failed: ${failed.join(", ")}` })
})
