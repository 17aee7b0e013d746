import { Clock, Context, Duration, Effect, Layer, Result, type Scope } from "effect"
import type { IpNetwork, NetAddress } from "effect/net"
import type { AllowedNetwork } from "../../domain/network/PublicAddress.ts"
import { PublicUrl, makeUrlRule, type UrlRule } from "../../domain/network/PublicUrl.ts"
import { type TimerWheel, makeTimerWheel } from "../concurrency/TimerWheel.ts"
import { withPrefetchedAnswers } from "./Egress/PrefetchedDns.ts"
import { type Connections, makeConnections } from "./Egress/Connections.ts"
import { type Deadline, type EgressResponse, exchange, Progress } from "./Egress/Exchange.ts"
import { EgressFailed, type EgressReason, UrlRefused } from "./Egress/EgressFailed.ts"
import { type Lookup, makeLookup } from "./Egress/Resolver.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"

/** How requests leave the service. */
export interface EgressOptions {
  /** Name servers to ask; none: the machine's. */
  readonly dnsServers: ReadonlyArray<NetAddress.InetAddress>
  /** What is let through although it is not public, on any port. For development and tests, and the operator's own. */
  readonly allow: ReadonlyArray<AllowedNetwork>
  /** Whether what is let through may be asked without TLS. */
  readonly allowHttp: boolean
  /** What nothing is sent to. Wins over `allow`. */
  readonly deny: ReadonlyArray<IpNetwork.IpNetwork>
  /** The service's own public host, with its port if it has one: no URL may name it. */
  readonly ownHost: string | undefined
  /** Certificates, PEM, that are trusted besides the system's and those of `NODE_EXTRA_CA_CERTS`. Default: none. */
  readonly certificates?: ReadonlyArray<string>
}

/** One request: a POST. */
export interface EgressRequest {
  /** The destination's id: connections are never shared between two destinations. */
  readonly pool: string
  /** As it is stored. The rules are applied to it anew. */
  readonly url: string
  readonly method: "POST"
  /** Checked where they were accepted; `host` and `content-length` are ours. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Over everything: look-up, connection, TLS, writing, the answer's headers and body. */
  readonly timeout: Duration.Input
  /** Where the reading of a body ends, and the connection with it. */
  readonly maxResponseBytes: number
}

interface EgressClient {
  /** The check at creation: the text, then a look-up and the addresses. */
  readonly vet: (text: string) => Effect.Effect<PublicUrl, UrlRefused>
  /**
   * Sends one request to an address that was looked up and judged for this very attempt, and follows no redirect.
   * Ends within `timeout`: with a failure when the answer's headers are not there by then, else with the answer and
   * as much of its body as came. So a body that drips, never ends or breaks off does not undo a status that is
   * known. Interrupting it cuts the connection. Nothing is sent twice.
   */
  readonly send: (request: EgressRequest) => Effect.Effect<EgressResponse, EgressFailed>
}

/** Most addresses of a name that are tried in one attempt, one after the other, when they cannot be connected to. */
const MAX_DIALS = 4

/** Failures of an address before anything was written to it: the name's next address may do better. */
const nextAddressReasons: ReadonlySet<EgressReason> = new Set(["ConnectionRefused", "Unreachable"])

const addressRefusals: ReadonlySet<string> = new Set(["NotPublic", "Denied"])

const makeVet = (rule: UrlRule, lookup: Lookup): EgressClient["vet"] =>
  Effect.fn("Egress.vet")(function* (text: string) {
    const parsed = PublicUrl.parse(text, rule)
    if (Result.isFailure(parsed)) return yield* new UrlRefused({ reason: parsed.failure })
    const url = parsed.success
    if (url.address !== undefined) return url
    const addresses = yield* Effect.mapError(lookup(url.host), (reason) => new UrlRefused({ reason }))
    for (const address of addresses) {
      const reason = url.checkAddress(address, rule)
      if (reason !== undefined) return yield* new UrlRefused({ reason })
    }
    return url
  })

/** Texts of URLs whose judgement is remembered. The rule does not change while the service runs. */
const MAX_PARSED = 1_000

const makeSend = (
  rule: UrlRule,
  lookup: Lookup,
  connections: Connections,
  alarms: TimerWheel,
  clock: Clock.Clock
): EgressClient["send"] => {
  const parsed = new Map<string, ReturnType<typeof PublicUrl.parse>>()

  const parse = (text: string): ReturnType<typeof PublicUrl.parse> => {
    const known = parsed.get(text)
    if (known !== undefined) return known
    const made = PublicUrl.parse(text, rule)
    if (parsed.size >= MAX_PARSED) parsed.clear()
    parsed.set(text, made)
    return made
  }

  const now = (): number => monotonicMillis(clock)

  /** The addresses to dial: those of one look-up, if all of them pass. One with open connections comes first. */
  const addressesOf = (
    destination: string,
    url: PublicUrl,
    millis: number
  ): Effect.Effect<ReadonlyArray<NetAddress.IpAddress>, EgressFailed> => {
    // A literal address was judged with the text, for this attempt.
    if (url.address !== undefined) return Effect.succeed([url.address])
    const found = Effect.timeoutOrElse(lookup(url.host), {
      duration: millis,
      orElse: () => Effect.fail<EgressReason>("TimedOut")
    })
    return Effect.matchEffect(found, {
      onFailure: (reason) => Effect.fail(new EgressFailed({ reason })),
      onSuccess: (addresses) => {
        if (addresses.some((address) => url.checkAddress(address, rule) !== undefined)) {
          return Effect.fail(new EgressFailed({ reason: "RefusedAddress" }))
        }
        const open = addresses.find((address) => connections.has(destination, url, address))
        return Effect.succeed(open === undefined ? addresses : [open, ...addresses.filter((a) => a !== open)])
      }
    })
  }

  const dial = (
    request: EgressRequest,
    url: PublicUrl,
    addresses: ReadonlyArray<NetAddress.IpAddress>,
    progress: Progress,
    until: number
  ): Effect.Effect<EgressResponse, EgressFailed> => {
    const deadline: Deadline = {
      hasPassed: () => now() >= until,
      onExpiry: (ring) => alarms.schedule(until - now(), ring)
    }
    const message = { target: url.target, headers: request.headers, body: request.body }
    const from = (index: number): Effect.Effect<EgressResponse, EgressFailed> => {
      const address = addresses[index]
      if (address === undefined) return Effect.fail(new EgressFailed({ reason: "Unreachable" }))
      const sent = Effect.suspend(() =>
        exchange(connections.to(request.pool, url, address), message, progress, deadline)
      )
      return index + 1 >= Math.min(addresses.length, MAX_DIALS)
        ? sent
        : Effect.catchIf(
            sent,
            (failed) => !progress.started && nextAddressReasons.has(failed.reason),
            () => from(index + 1)
          )
    }
    return from(0)
  }

  // Not traced, and by plain composition: it is on the path of every delivery, and a span would carry the URL.
  return (request) =>
    Effect.suspend(() => {
      const judged = parse(request.url)
      if (Result.isFailure(judged)) {
        const reason = addressRefusals.has(judged.failure) ? "RefusedAddress" : "RefusedUrl"
        return Effect.fail(new EgressFailed({ reason }))
      }
      const url = judged.success
      const millis = Duration.toMillis(request.timeout)
      const until = now() + millis
      const progress = new Progress(request.maxResponseBytes)
      return Effect.flatMap(addressesOf(request.pool, url, millis), (addresses) =>
        dial(request, url, addresses, progress, until)
      )
    })
}

const make = (options: EgressOptions): Effect.Effect<EgressClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const rule = makeUrlRule(options)
    const lookup = yield* makeLookup(options.dnsServers)
    const connections = yield* makeConnections(options.certificates ?? [])
    const alarms = yield* makeTimerWheel
    const clock = yield* Clock.Clock
    return {
      vet: makeVet(rule, withPrefetchedAnswers(lookup)),
      send: makeSend(rule, lookup, connections, alarms, clock)
    }
  })

/** Requests to receivers and collectors: vetted at creation and at every attempt. */
export class Egress extends Context.Service<Egress, EgressClient>()("countersign/server/egress/Egress") {
  static readonly layer = (options: EgressOptions): Layer.Layer<Egress> => Layer.effect(Egress, make(options))
}

/** The same for model providers, whose `allow` is the operator's own list, plain http included. */
export class ProviderEgress extends Context.Service<ProviderEgress, EgressClient>()(
  "countersign/server/egress/Egress/ProviderEgress"
) {
  static readonly layer = (options: EgressOptions): Layer.Layer<ProviderEgress> =>
    Layer.effect(ProviderEgress, make(options))
}
