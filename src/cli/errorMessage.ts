import { Cause } from "effect"
import { isCliError } from "effect/cli/CliError"
import { isSqlError, type SqlError } from "effect/sql/SqlError"
import { DirectDatabaseFailed, isRefusedParameter } from "../server/store/Database/preparePooler.ts"
import { describeDatabaseError, sqlState } from "../server/store/databaseErrors.ts"
import { permissionAdvice } from "../server/store/EmbeddedPostgres/EmbeddedPostgresFailed.ts"
import { errnoCode } from "../server/store/errnoCode.ts"
import { FailedWithCode, FailureLogged } from "./exitCode.ts"
import { describePathFailure, FileFailed } from "./fileFailure.ts"
import { describeServiceFailure } from "./serviceFailure.ts"

/** Describes a failure for the operator; undefined if it was already reported. */
export const errorMessage = (cause: Cause.Cause<unknown>): string | undefined => {
  const squashed = Cause.squash(cause)
  const error = squashed instanceof FailedWithCode ? squashed.cause : squashed
  if (isCliError(error) || error instanceof FailureLogged) return undefined
  if (isSqlError(error)) return describeDatabaseFailure("cannot use the database", error)
  if (!(error instanceof Error)) return oneLine(String(error))
  if (isSqlError(error.cause)) {
    const variable =
      error instanceof DirectDatabaseFailed ? "COUNTERSIGN_DIRECT_DATABASE_URL" : "DATABASE_URL"
    return describeDatabaseFailure(oneLine(error.message), error.cause, variable)
  }
  if (error instanceof FileFailed) return oneLine(error.message)
  const failedService = describeServiceFailure(error)
  if (failedService !== undefined) return failedService
  // Its advice differs: another account is not to get access to the key.
  if ("_tag" in error && error._tag === "MasterKeyFileFailed") return oneLine(error.message)
  const root = rootCause(error)
  return (
    describeSystemError(root) ??
    (root === error ? describePathFailure(root) : undefined) ??
    oneLine(error.message === "" ? error.name : error.message)
  )
}

const describeDatabaseFailure = (what: string, error: SqlError, variable = "DATABASE_URL"): string => {
  const advice = databaseAdvice(error)?.replace(/\bDATABASE_URL\b/, variable)
  return `${what}: ${describeDatabaseError(error)}${advice === undefined ? "" : `; ${advice}`}`
}

/** The remedy for a failure of the database, if one is known. */
export const databaseAdvice = (error: SqlError): string | undefined => {
  switch (sqlState(error)) {
    case "42501":
      return (
        "make its role the owner of the database (ALTER DATABASE … OWNER TO …), or grant it the schema " +
        "(GRANT USAGE, CREATE ON SCHEMA public TO …)"
      )
    case "3D000":
      return "create it: CREATE ROLE countersign LOGIN PASSWORD '…'; CREATE DATABASE countersign OWNER countersign"
    case "28P01":
    case "28000":
      return "check the user and the percent-encoded password of DATABASE_URL, and pg_hba.conf of the server"
    case "25006":
      return "set DATABASE_URL to the primary server"
    case "08P01":
      return isRefusedParameter(error)
        ? "DATABASE_URL leads through a connection pooler: set COUNTERSIGN_DIRECT_DATABASE_URL to the same database without the pooler"
        : undefined
    case "53300":
      return "raise max_connections of the server, or run fewer replicas: each opens up to 20 connections"
    case "53100":
      return "free disk space on the database server"
    case "":
      if (describeDatabaseError(error).includes("does not support TLS")) {
        return "turn TLS on in PostgreSQL (ssl = on, with a certificate), or, on a network that you trust, set sslmode=prefer or disable in DATABASE_URL"
      }
      return error.reason._tag === "ConnectionError"
        ? "check that PostgreSQL runs at the host and port of DATABASE_URL and accepts connections from here"
        : undefined
    default:
      return undefined
  }
}

/** The alternatives to a directory that this account may not use. */
const OTHER_DIRECTORY =
  "if it is the data directory, set COUNTERSIGN_DATA_DIR to a directory that the account may write to, or set DATABASE_URL"

/** Describes a failed system call with its name and path; undefined for any other error. */
const describeSystemError = (error: Error): string | undefined => {
  const call = "syscall" in error && typeof error.syscall === "string" ? error.syscall : ""
  const path = "path" in error && typeof error.path === "string" ? error.path : undefined
  const isNetwork = call === "listen" || call === "bind"
  switch (errnoCode(error)) {
    case "EADDRINUSE":
      return "the address of HOST and PORT is already in use: set another PORT, or stop the process that uses it"
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return "HOST must be an address of this machine"
    case "EACCES":
    case "EPERM":
      if (isNetwork) {
        return "this account may not listen on PORT: set a PORT from 1024 on, or give the process the capability CAP_NET_BIND_SERVICE"
      }
      return path === undefined
        ? oneLine(error.message)
        : `permission denied for ${path} (${call}): ${permissionAdvice(path)}; ${OTHER_DIRECTORY}`
    case "EROFS":
      return path === undefined
        ? oneLine(error.message)
        : `the file system of ${path} is read-only: mount a writable one; ${OTHER_DIRECTORY}`
    default:
      return undefined
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
