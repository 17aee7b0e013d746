import { VERSION } from "../../src/domain/Version.ts"
import { nodeFlags } from "../nodeFlags.js"
import type { RunConfig } from "./oci.ts"

/** `slim` needs `DATABASE_URL`; `full` has the programs of a PostgreSQL that the service runs itself. */
export const variants = ["slim", "full"] as const
export type Variant = (typeof variants)[number]

/** The account of the service, user and group. It has a name in `/etc/passwd`, which PostgreSQL needs. */
export const ACCOUNT = 65_532

/** The directory of the embedded PostgreSQL: a volume, and the only one that the service writes to. */
export const DATA_DIR = "/var/lib/countersign"

/** Where Debian's package has PostgreSQL's programs. */
export const POSTGRES_BIN = "/usr/lib/postgresql/17/bin"

const NODE = "/usr/local/bin/node"

const SECOND = 1_000_000_000

const descriptions: Readonly<Record<Variant, string>> = {
  slim: "The Countersign service. Needs a PostgreSQL, 15 or newer, at DATABASE_URL.",
  full: "The Countersign service with a PostgreSQL of its own, for one container with a volume at /var/lib/countersign."
}

/** How a container of a variant runs. `revision` is the commit, if it is known. */
export const runConfig = (
  variant: Variant,
  { created, revision }: { readonly created: string; readonly revision: string | undefined }
): RunConfig => ({
  User: `${ACCOUNT}:${ACCOUNT}`,
  ExposedPorts: { "8080/tcp": {} },
  Env: [
    "PATH=/usr/local/bin:/usr/bin",
    "NODE_ENV=production",
    "HOST=0.0.0.0",
    "PORT=8080",
    ...(variant === "full"
      ? [`COUNTERSIGN_DATA_DIR=${DATA_DIR}`, `COUNTERSIGN_POSTGRES_BIN=${POSTGRES_BIN}`]
      : [])
  ],
  Entrypoint: [NODE, ...nodeFlags, "/app/countersign.js"],
  Cmd: ["serve"],
  ...(variant === "full" ? { Volumes: { [DATA_DIR]: {} } } : {}),
  WorkingDir: variant === "full" ? DATA_DIR : "/app",
  Labels: {
    "org.opencontainers.image.title": "Countersign",
    "org.opencontainers.image.description": descriptions[variant],
    "org.opencontainers.image.version": VERSION,
    "org.opencontainers.image.licenses": "MIT",
    "org.opencontainers.image.created": created,
    ...(revision === undefined ? {} : { "org.opencontainers.image.revision": revision })
  },
  StopSignal: "SIGTERM",
  Healthcheck: {
    Test: ["CMD", NODE, "/app/healthcheck.js"],
    Interval: 30 * SECOND,
    Timeout: 5 * SECOND,
    StartPeriod: 60 * SECOND,
    Retries: 3
  }
})
