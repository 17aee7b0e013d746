/** Faults of the disk below the embedded PostgreSQL: its system calls fail as on a full, read-only or broken disk. */
import { Context, Effect, Layer } from "effect"
import { chmodSync, mkdirSync, writeFileSync } from "node:fs"
import path from "node:path"
import { EmbeddedPostgres } from "../../../src/server/store/EmbeddedPostgres.ts"
import { prepareOrganization, startLoad } from "./load.ts"
import { type FailingCalls, makeProcessFaults, type ProcessFaults } from "./preload.ts"
import { findPrograms } from "./postgresServer.ts"
import { startWebhookReceiver } from "./receiver.ts"
import { makeReport } from "./report.ts"
import { type Fault, type FaultRunOptions, inflictAll, shuffled } from "./rounds.ts"
import { serviceEnvironment, startService } from "./service.ts"
import { temporaryDirectory } from "./temporaryDirectory.ts"

/** A directory of PostgreSQL's programs, of which the server preloads the faults. */
const programsWithFaults = Effect.fnUntraced(function* (directory: string, faults: ProcessFaults) {
  const { binaries } = yield* findPrograms(directory)
  const programs = path.join(directory, "bin")
  mkdirSync(programs)
  const variables = Object.entries(faults.environment).map(([name, value]) => `${name}='${value}'`)
  const script = (name: string, program: string, assignments: string) => {
    writeFileSync(path.join(programs, name), `#!/bin/sh\n${assignments} exec '${program}' "$@"\n`)
    chmodSync(path.join(programs, name), 0o755)
  }
  script("postgres", binaries.postgres, variables.join(" "))
  script("initdb", binaries.initdb, "")
  script("pg_ctl", binaries.pgCtl, "")
  return programs
})

/** How long a fault stays, in milliseconds. */
const HOLD_MILLIS = 6_000

/** The faults of the disk. In the middle of a commit: after some calls have succeeded. */
export const diskFaults = (
  faults: ProcessFaults,
  random: () => number,
  holdMillis = HOLD_MILLIS
): ReadonlyArray<Fault> => {
  const fault = (name: string, calls: Omit<FailingCalls, "skip">, skip: number): Fault => ({
    name,
    begin: Effect.sync(() => faults.fail({ ...calls, skip: Math.floor(random() * skip) })),
    holdMillis,
    end: Effect.sync(() => void faults.heal()),
    expected: "unavailable"
  })
  return [
    fault("no space for tables", { error: "ENOSPC", operations: ["write", "extend"], path: "/base/" }, 5),
    fault(
      "no space for the write-ahead log in the middle of commits",
      { error: "ENOSPC", operations: ["write", "extend"], path: "/pg_wal/" },
      50
    ),
    fault(
      "the disk quota is used up",
      { error: "EDQUOT", operations: ["write", "extend"], path: "/postgres/" },
      20
    ),
    fault(
      "the write-ahead log cannot be synced",
      { error: "EIO", operations: ["sync"], path: "/pg_wal/" },
      50
    ),
    fault(
      "the disk is read-only",
      { error: "EROFS", operations: ["write", "open", "extend", "name"], path: "/postgres/" },
      20
    )
  ]
}

/** Runs a service with an embedded PostgreSQL whose disk fails. Undefined: this machine cannot make the faults. */
export const runDiskFaults = Effect.fnUntraced(function* (options: FaultRunOptions) {
  const faults = yield* makeProcessFaults
  if (faults === undefined) return undefined
  const directory = yield* temporaryDirectory
  const environment = {
    ...serviceEnvironment(),
    COUNTERSIGN_DATA_DIR: path.join(directory, "data"),
    COUNTERSIGN_POSTGRES_BIN: yield* programsWithFaults(directory, faults)
  }
  const service = yield* startService(environment)
  if (service.firstKey === undefined) return yield* Effect.die(new Error("The service printed no key"))
  const receiver = yield* startWebhookReceiver
  const keys = yield* prepareOrganization(service.url, service.firstKey, receiver.url)
  const load = yield* startLoad(() => [service.url], keys)
  const list = shuffled(diskFaults(faults, options.random), options)
  const { broken, rounds } = yield* inflictAll(list, () => [service], load, options)
  // Only now, because this process would restart the server too.
  const store = yield* Layer.build(EmbeddedPostgres.layer({ dataDir: environment.COUNTERSIGN_DATA_DIR }))
  const { url } = Context.get(store, EmbeddedPostgres)
  return yield* makeReport({ url, load, receiver, rounds, broken })
}, Effect.orDie)
