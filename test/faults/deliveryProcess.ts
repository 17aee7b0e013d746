/**
 * A process that only delivers webhooks, for the fault tests to kill, stop and freeze. It prints "ready" once it has
 * claimed shards.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Duration, Effect, Layer, Redacted, Result } from "effect"
import { parseAllowedNetworks } from "../../src/domain/network/PublicAddress.ts"
import * as Database from "../../src/server/store/Database.ts"
import { Delivery } from "../../src/server/delivery/Delivery.ts"
import { Egress } from "../../src/server/egress/Egress.ts"
import { parseDnsServers } from "../../src/server/egress/parseDnsServers.ts"
import { RecentEvents } from "../../src/server/notifications/Notifications/RecentEvents.ts"
import * as WebhookChannel from "../../src/server/notifications/Notifications/WebhookChannel.ts"
import { SecretBox } from "../../src/server/secrets/SecretBox.ts"
import { StoreClock } from "../../src/server/store/StoreClock.ts"
import { VerificationPolicy } from "../../src/server/identity/VerificationPolicy.ts"

/** The database URL, the master key, the lease, a name server, and the delay before each attempt in seconds. */
const [url = "", masterKey = "", leaseMillis = "10000", dnsServer = "", delays = ""] = process.argv.slice(2)
const lease =
  leaseMillis === "10000"
    ? {}
    : {
        leaseMillis: Number(leaseMillis),
        marginMillis: Number(leaseMillis) / 2,
        renewMillis: Number(leaseMillis) / 6
      }
const options =
  delays === "" ? {} : { delays: delays.split(",").map((text) => Duration.seconds(Number(text))) }

const layer = Delivery.layer(Effect.all([WebhookChannel.make(options)]), { lease }).pipe(
  Layer.provide(StoreClock.layer),
  Layer.provide(
    Layer.mergeAll(
      RecentEvents.layer,
      VerificationPolicy.layerNone,
      SecretBox.layer({ masterKeys: [Redacted.make(masterKey)] }),
      Egress.layer({
        dnsServers: Result.getOrThrow(parseDnsServers(dnsServer)),
        allow: Result.getOrThrow(parseAllowedNetworks("127.0.0.0/8")),
        allowHttp: true,
        deny: [],
        ownHost: undefined
      })
    )
  ),
  Layer.provide(Database.layer({ url: Redacted.make(url) }))
)

NodeRuntime.runMain(
  Effect.andThen(
    Effect.sync(() => process.stdout.write("ready\n")),
    Effect.never
  ).pipe(Effect.provide(layer))
)
