import { Clock, Context, Duration, Effect, Layer, Option, Result, type Scope } from "effect"
import { CurrentPrincipal } from "../../api/Authorization.ts"
import type { IpNetwork, NetAddress } from "effect/net"
import type { AllowedNetwork } from "../../domain/network/PublicAddress.ts"
import { PublicUrl, makeUrlRule, type UrlRule } from "../../domain/network/PublicUrl.ts"
import { LruCache } from "../concurrency/LruCache.ts"
import { type TimerWheel, makeTimerWheel } from "../concurrency/TimerWheel.ts"
import { withPrefetchedAnswers } from "./PrefetchedDns.ts"
import { type Connections, makeConnections } from "./Egress/Connections.ts"
import { type Deadline, exchange, Progress } from "./Egress/Exchange.ts"
import type { EgressResponse } from "./EgressResponse.ts"
import { EgressFailed, type EgressReason, UrlRefused } from "./EgressFailed.ts"
import { type Lookup, makeResolver } from "./Egress/Resolver.ts"
import { monotonicMillis } from "../concurrency/monotonicMillis.ts"

/** Rules for outgoing requests. */
export interface EgressOptions {
  /** Name servers to query; empty means the machine's own. */
  readonly dnsServers: ReadonlyArray<NetAddress.InetAddress>
  /** Allowed networks besides public addresses, on any port: for development, tests and the operator's own networks. */
  readonly allow: ReadonlyArray<AllowedNetwork>
  /** Whether allowed networks may be reached over plain HTTP. */
  readonly allowHttp: boolean
  /** Denied networks; takes precedence over `allow`. */
  readonly deny: ReadonlyArray<IpNetwork.IpNetwork>
  /** The service's own public host, with its port if it has one. URLs naming it are refused. */
  readonly ownHost: string | undefined
  /** Trusted PEM certificates besides the system's and the ones in `NODE_EXTRA_CA_CERTS`. Default: none. */
  readonly certificates?: ReadonlyArray<string>
}

/** A POST request. */
export interface EgressRequest {
  /** The id of the organization that the request is sent for, for the limit of its concurrent DNS lookups. */
  readonly organization: string
  /** The destination's id; destinations never share a connection. */
  readonly pool: string
  /** The stored URL. The rules are applied to it again for every request. */
  readonly url: string
  readonly method: "POST"
  /** Validated when they were stored; `host` and `content-length` are set by the service. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Covers DNS, connect, TLS, writing the request, and reading the response's headers and body. */
  readonly timeout: Duration.Input
  /** When `timeout` begins, in milliseconds on the monotonic clock. Default: when the request is sent. */
  readonly began?: number | undefined
  /** Reading a response body stops here, and the connection is closed. */
  readonly maxResponseBytes: number
  /**
   * Called with each address before the request is sent to it. If it returns false, nothing is sent: `HeldBack`.
   * Default: all are admitted.
   */
  readonly admit?: ((address: NetAddress.IpAddress) => boolean) | undefined
}

/** Sends requests under the egress rules. */
export interface EgressClient {
  /** Checks a URL when it is stored: first its text, then the addresses its host resolves to. */
  readonly vet: (text: string) => Effect.Effect<PublicUrl, UrlRefused>
  /**
   * Sends one request to an address resolved and checked for this attempt; redirects are not followed. It is sent once more, at once, if a
   * connection that another request had used is closed before an answer begins: servers close idle connections at any time.
   *
   * Ends within `timeout`: with a failure if the response's headers have not arrived by then, otherwise with the
   * response and as much of its body as arrived. So a body that drips, never ends or breaks off does not lose a known
   * status. Interruption closes the connection.
   */
  readonly send: (request: EgressRequest) => Effect.Effect<EgressResponse, EgressFailed>
}

/** Addresses of a name tried one after the other in one attempt, if they cannot be connected to. */
const MAX_DIALS = 4

/** Failures before anything was written to an address; the name's next address may succeed. */
const nextAddressReasons: ReadonlySet<EgressReason> = new Set(["ConnectionRefused", "Unreachable"])

const addressRefusals: ReadonlySet<string> = new Set(["NotPublic", "Denied"])

const makeVet = (rule: UrlRule, lookup: Lookup): EgressClient["vet"] =>
  Effect.fn("Egress.vet")(function* (text: string) {
    const parsed = PublicUrl.parse(text, rule)
    if (Result.isFailure(parsed)) return yield* new UrlRefused({ reason: parsed.failure })
    const url = parsed.success
    if (url.address !== undefined) return url
    const principal = yield* Effect.serviceOption(CurrentPrincipal)
    const organization = Option.match(principal, { onNone: () => "", onSome: ({ org_id }) => org_id })
    const addresses = yield* Effect.mapError(
      lookup(url.host, organization),
      (reason) => new UrlRefused({ reason })
    )
    for (const address of addresses) {
      const reason = url.checkAddress(address, rule)
      if (reason !== undefined) return yield* new UrlRefused({ reason })
    }
    return url
  })

/** Parsed URLs kept in memory. The rules do not change while the service runs. */
const MAX_PARSED = 1_000

const makeSend = (
  rule: UrlRule,
  lookup: Lookup,
  connections: Connections,
  timers: TimerWheel,
  clock: Clock.Clock,
  resends: boolean
): EgressClient["send"] => {
  const parsed = new LruCache<ReturnType<typeof PublicUrl.parse>>({ entries: MAX_PARSED, weight: MAX_PARSED })

  const parse = (text: string): ReturnType<typeof PublicUrl.parse> => {
    const cached = parsed.get(text)
    if (cached !== undefined) return cached
    const result = PublicUrl.parse(text, rule)
    parsed.set(text, result, 1)
    return result
  }

  const now = (): number => monotonicMillis(clock)

  /** Returns the addresses of one DNS lookup if all are allowed. An address with open connections comes first. */
  const addressesOf = (
    { organization, pool: destination }: EgressRequest,
    url: PublicUrl,
    millis: number
  ): Effect.Effect<ReadonlyArray<NetAddress.IpAddress>, EgressFailed> => {
    // An IP address in the URL was checked with the URL, for this attempt.
    if (url.address !== undefined) return Effect.succeed([url.address])
    const found = Effect.timeoutOrElse(lookup(url.host, organization), {
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
      onExpiry: (callback) => timers.schedule(until - now(), callback)
    }
    const message = { target: url.target, headers: request.headers, body: request.body }
    const from = (index: number): Effect.Effect<EgressResponse, EgressFailed> => {
      const address = addresses[index]
      if (address === undefined) return Effect.fail(new EgressFailed({ reason: "Unreachable" }))
      const sent = Effect.suspend(() =>
        request.admit === undefined || request.admit(address)
          ? Effect.catchIf(
              exchange(connections.to(request.pool, url, address), message, progress, deadline),
              () => resends && progress.wasIdle,
              () => exchange(connections.fresh(request.pool, url, address), message, progress, deadline)
            )
          : Effect.fail(new EgressFailed({ reason: "HeldBack" }))
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

  // Neither traced nor a generator: this is on the path of every delivery, and a span would contain the URL.
  return (request) =>
    Effect.suspend(() => {
      const parsedUrl = parse(request.url)
      if (Result.isFailure(parsedUrl)) {
        const reason = addressRefusals.has(parsedUrl.failure) ? "RefusedAddress" : "RefusedUrl"
        return Effect.fail(new EgressFailed({ reason }))
      }
      const url = parsedUrl.success
      const until = (request.began ?? now()) + Duration.toMillis(request.timeout)
      const progress = new Progress(request.maxResponseBytes)
      return Effect.flatMap(addressesOf(request, url, until - now()), (addresses) =>
        dial(request, url, addresses, progress, until)
      )
    })
}

/** `resends`: whether a request may be sent once more after an idle connection was closed. */
const make = (options: EgressOptions, resends: boolean): Effect.Effect<EgressClient, never, Scope.Scope> =>
  Effect.gen(function* () {
    const rule = makeUrlRule(options)
    const lookup = yield* makeResolver(options.dnsServers)
    const connections = yield* makeConnections(options.certificates ?? [])
    const timers = yield* makeTimerWheel
    const clock = yield* Clock.Clock
    return {
      vet: makeVet(rule, withPrefetchedAnswers(lookup)),
      send: makeSend(rule, lookup, connections, timers, clock, resends)
    }
  })

const vetText = makeVet(makeUrlRule({ allow: [], allowHttp: false, deny: [], ownHost: undefined }), () =>
  Effect.succeed([])
)

/**
 * Outgoing requests to webhook endpoints and collectors. URLs are checked when they are stored and again at every
 * attempt, so that neither a changed DNS record nor a redirect reaches an internal address (SSRF, DNS rebinding).
 *
 * ```
 *   URL ── parse, rules ──> DNS lookup ── every address allowed? ──> connect to that address ──> exchange
 *                               └── one address refused: the request fails, nothing is sent
 * ```
 */
export class Egress extends Context.Service<Egress, EgressClient>()("countersign/server/egress/Egress") {
  static readonly layer = (options: EgressOptions): Layer.Layer<Egress> =>
    Layer.effect(Egress, make(options, true))

  /** For tests: `send` gets every request, and nothing reaches the network. URLs are checked by their text alone, without DNS. */
  static readonly layerTest = (send: EgressClient["send"]): Layer.Layer<Egress> =>
    Layer.succeed(Egress, { vet: vetText, send })
}

/**
 * The same for model providers, with the operator's own `allow` list, plain HTTP included. Nothing is sent twice: a call that a provider may
 * have executed costs money.
 */
export class ProviderEgress extends Context.Service<ProviderEgress, EgressClient>()(
  "countersign/server/egress/Egress/ProviderEgress"
) {
  static readonly layer = (options: EgressOptions): Layer.Layer<ProviderEgress> =>
    Layer.effect(ProviderEgress, make(options, false))

  /** For tests: like `Egress.layerTest`. */
  static readonly layerTest = (send: EgressClient["send"]): Layer.Layer<ProviderEgress> =>
    Layer.succeed(ProviderEgress, { vet: vetText, send })
}
