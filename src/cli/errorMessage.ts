import { Cause } from "effect"
import { isCliError } from "effect/cli/CliError"
import { isSqlError } from "effect/sql/SqlError"
import { errnoCode } from "../server/store/errnoCode.ts"

/** Describes a failure for the operator; undefined if it was already reported. */
export const errorMessage = (cause: Cause.Cause<unknown>): string | undefined => {
  const error = Cause.squash(cause)
  if (isCliError(error)) return undefined
  if (isSqlError(error)) return `cannot use the database: ${oneLine(rootCause(error.reason).message)}`
  if (!(error instanceof Error)) return oneLine(String(error))
  const root = rootCause(error)
  switch (errnoCode(root)) {
    case "EADDRINUSE":
      return "the address of HOST and PORT is already in use: set another PORT, or stop the process that uses it"
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return "HOST must be an address of this machine"
    case "EACCES":
      return `permission denied for PORT or a directory: ${oneLine(root.message)}`
    default:
      return oneLine(error.message === "" ? error.name : error.message)
  }
}

/** Whether a failure is a defect of this program, whose stack trace should be printed. */
export const isDefect = (cause: Cause.Cause<unknown>): boolean => {
  const error = Cause.squash(cause)
  return (
    !cause.reasons.some(Cause.isFailReason) && !isSqlError(error) && errnoCode(rootCause(error)) === undefined
  )
}

/** Maximum length of a followed chain of causes. */
const MAX_DEPTH = 8

/** Returns the innermost cause of an error. */
export const rootCause = (error: unknown): Error => {
  let root = error instanceof Error ? error : new Error(String(error))
  for (let depth = 0; depth < MAX_DEPTH && root.cause instanceof Error; depth++) root = root.cause
  return root
}

/** Collapses line breaks and other white space to single spaces. */
export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim()
