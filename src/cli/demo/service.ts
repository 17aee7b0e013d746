import { Context, Effect, Layer, Option, type Redacted } from "effect"
import { HttpServer } from "effect/http"
import { NetAddress } from "effect/net"
import { ApiKeys } from "../../server/identity/ApiKeys.ts"
import * as Server from "../../server/Server.ts"
import { decode } from "../../server/config/Settings.ts"
import { temporaryDirectory } from "../../testing/temporaryDirectory.ts"
import { DEFAULT_ORGANIZATION } from "../organization.ts"
import { DemoFailed, during } from "./DemoFailed.ts"

/** The service that the demo runs against. */
export interface DemoService {
  readonly url: string
  /** A key that may create keys and endpoints. */
  readonly key: Redacted.Redacted
  /** A description of the service for the output. */
  readonly about: string
}

/** The variables with which a service may send to the demo's receiver. */
export const allowReceiver = (port: number) => ({
  COUNTERSIGN_EGRESS_ALLOW: `127.0.0.1:${port}`,
  COUNTERSIGN_EGRESS_HTTP: "true"
})

/** Starts a service in this process with a temporary database, a free port and these environment variables. */
export const startService = Effect.fnUntraced(function* (variables: Readonly<Record<string, string>>) {
  const dataDir = yield* temporaryDirectory("countersign-demo-")
  const { settings } = yield* Effect.fromResult(
    decode(
      {
        PORT: "0",
        COUNTERSIGN_DATA_DIR: dataDir,
        COUNTERSIGN_STOP_SECONDS: "2",
        ...variables
      },
      { cwd: dataDir, uid: process.getuid?.() }
    )
  )
  const running = yield* Layer.build(Server.layer(settings)).pipe(during("starting the service"))
  const { address } = Context.get(running, HttpServer.HttpServer)
  const first = yield* Context.get(running, ApiKeys)
    .bootstrap({ org_name: DEFAULT_ORGANIZATION, key: Option.none() })
    .pipe(during("creating the first key"))
  if (Option.isNone(first) || !NetAddress.isInetAddress(address)) {
    return yield* new DemoFailed({ message: "the demo's service did not start with an empty database" })
  }
  const service: DemoService = {
    url: `http://127.0.0.1:${address.port}`,
    key: first.value.secret,
    about: "started for this demo with a temporary database"
  }
  return service
})
