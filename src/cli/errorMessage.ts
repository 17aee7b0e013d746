import { Cause } from "effect"
import { isCliError } from "effect/cli/CliError"
import { isSqlError } from "effect/sql/SqlError"
import { errnoCode } from "../server/store/errnoCode.ts"

/** A failure in the words of an operator; undefined: it was told already. */
export const errorMessage = (cause: Cause.Cause<unknown>): string | undefined => {
  const error = Cause.squash(cause)
  if (isCliError(error)) return undefined
  if (isSqlError(error)) return `the store cannot be used: ${oneLine(rootCause(error.reason).message)}`
  if (!(error instanceof Error)) return oneLine(String(error))
  const root = rootCause(error)
  switch (errnoCode(root)) {
    case "EADDRINUSE":
      return "HOST and PORT name an address that is taken: set PORT to another, or stop what listens there"
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return "HOST must be an address of this machine"
    case "EACCES":
      return `PORT or a directory is closed to this account: ${oneLine(root.message)}`
    default:
      return oneLine(error.message === "" ? error.name : error.message)
  }
}

/** Whether a failure is a fault of ours, of which the stack should be shown. */
export const isDefect = (cause: Cause.Cause<unknown>): boolean => {
  const error = Cause.squash(cause)
  return (
    !cause.reasons.some(Cause.isFailReason) && !isSqlError(error) && errnoCode(rootCause(error)) === undefined
  )
}

/** Longest chain of causes that is followed. */
const MAX_DEPTH = 8

/** The error that the others were made from. */
export const rootCause = (error: unknown): Error => {
  let root = error instanceof Error ? error : new Error(String(error))
  for (let depth = 0; depth < MAX_DEPTH && root.cause instanceof Error; depth++) root = root.cause
  return root
}

/** A text with its lines, and its runs of blanks, made one. */
export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim()
