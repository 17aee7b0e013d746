import { Context, Effect, Layer } from "effect"
import type { ServerResponse } from "node:http"
import { unsentResponseBytes } from "../observability/metricDefinitions.ts"

/** Limits on the memory of responses that clients have not read, and on the time for reading them. */
export interface UnsentLimits {
  /** Total bytes. Default 128 MiB. */
  readonly bytes: number
  /** Bytes of one organization; without an API key or console session, of one address. Default 32 MiB. */
  readonly bytesPerOwner: number
  /** How long a client may read nothing of a response. Default 30 s. */
  readonly stalledMillis: number
  /** The rate at which a client has to read a response, or a part of a stream, besides `stalledMillis`. Default 16 KiB/s. */
  readonly bytesPerSecond: number
}

/** The default limits. */
export const defaultUnsentLimits: UnsentLimits = {
  bytes: 128 * 2 ** 20,
  bytesPerOwner: 32 * 2 ** 20,
  stalledMillis: 30_000,
  bytesPerSecond: 16 * 2 ** 10
}

/** Smaller responses are not counted: with 10,000 connections they take at most 160 MiB. */
export const COUNTED_BYTES = 16 * 2 ** 10

/**
 * The fraction of an organization's limit from which its further reads wait. The rest is for reads in progress, and for
 * writes.
 */
const WAIT_RATIO = 0.5

/**
 * Why the connection of an unsent response is closed: its owner or all owners have too many bytes, or its client reads
 * too slowly.
 */
export const unsentCuts = ["memory", "slow"] as const
export type UnsentCut = (typeof unsentCuts)[number]

/** A response that its client has not read, or the part of a stream that was written last. */
export interface UnsentResponse {
  /** The organization, or the client's address. */
  readonly owner: string
  /** Its size in memory; 0 if it shares its bytes with other responses. */
  readonly bytes: number
  /** Bytes that the client has to read. */
  readonly length: number
  /** Whether the limit of its owner applies. */
  readonly limited: boolean
  /** Closes the connection. */
  readonly cut: (reason: UnsentCut) => void
}

/** The unsent responses of a process. */
export class UnsentResponses extends Context.Service<
  UnsentResponses,
  {
    readonly limits: UnsentLimits
    /**
     * Counts a response until the returned function is called. Above a limit, cuts the oldest ones of the owner with the
     * most bytes.
     */
    readonly add: (response: UnsentResponse) => () => void
    /** The counted bytes. */
    readonly bytes: () => number
    /** Whether an owner may have another response built. */
    readonly hasRoom: (owner: string) => boolean
    /** Waits until it may. */
    readonly awaitRoom: (owner: string) => Effect.Effect<void>
  }
>()("countersign/server/admission/UnsentResponses") {
  /** Counts the bytes in the metrics of the service. */
  static readonly layer = (limits: UnsentLimits): Layer.Layer<UnsentResponses> =>
    Layer.effect(
      UnsentResponses,
      Effect.contextWith((context: Context.Context<never>) =>
        Effect.sync(() =>
          makeUnsentResponses(limits, (bytes) => unsentResponseBytes.updateUnsafe(bytes, context))
        )
      )
    )
}

/** The unsent responses of one owner, the oldest first. */
interface Owner {
  bytes: number
  /** Each with the timer that cuts it. */
  readonly unsent: Map<UnsentResponse, NodeJS.Timeout>
  readonly waiting: Set<() => void>
}

/** Unsent responses within limits. `onChange` gets the counted bytes. */
export const makeUnsentResponses = (
  limits: UnsentLimits = defaultUnsentLimits,
  onChange: (bytes: number) => void = () => undefined
): UnsentResponses["Service"] => {
  const owners = new Map<string, Owner>()
  let total = 0
  onChange(total)

  const ownerOf = (name: string): Owner => {
    const owner = owners.get(name) ?? { bytes: 0, unsent: new Map(), waiting: new Set() }
    owners.set(name, owner)
    return owner
  }

  const isBelowRatio = ({ bytes }: Owner): boolean => bytes < limits.bytesPerOwner * WAIT_RATIO

  const forgetIfUnused = (name: string, owner: Owner): void => {
    if (owner.unsent.size === 0 && owner.waiting.size === 0) owners.delete(name)
  }

  const remove = (response: UnsentResponse): void => {
    const owner = owners.get(response.owner)
    if (owner === undefined) return
    clearTimeout(owner.unsent.get(response))
    if (!owner.unsent.delete(response)) return
    owner.bytes -= response.bytes
    total -= response.bytes
    onChange(total)
    if (isBelowRatio(owner)) for (const resume of owner.waiting) resume()
    forgetIfUnused(response.owner, owner)
  }

  const cutOldest = (owner: Owner | undefined): boolean => {
    for (const response of owner?.unsent.keys() ?? []) {
      if (response.bytes === 0) continue
      remove(response)
      response.cut("memory")
      return true
    }
    return false
  }

  const largestOwner = (): Owner | undefined => {
    let largest: Owner | undefined
    for (const owner of owners.values()) if (owner.bytes > (largest?.bytes ?? 0)) largest = owner
    return largest
  }

  return {
    limits,
    bytes: () => total,
    hasRoom: (name) => {
      const owner = owners.get(name)
      return owner === undefined || isBelowRatio(owner)
    },
    awaitRoom: (name) =>
      Effect.callback((resume) => {
        const owner = ownerOf(name)
        const go = () => {
          owner.waiting.delete(go)
          resume(Effect.void)
        }
        owner.waiting.add(go)
        if (isBelowRatio(owner)) go()
        return Effect.sync(() => {
          owner.waiting.delete(go)
          forgetIfUnused(name, owner)
        })
      }),
    add: (response) => {
      const owner = ownerOf(response.owner)
      const cutSlow = () => {
        remove(response)
        response.cut("slow")
      }
      // A timer of its own instead of a fiber's sleep: it is started and cancelled with every response, which a fiber
      // would make several times as expensive.
      const millis = limits.stalledMillis + (response.length / limits.bytesPerSecond) * 1_000
      owner.unsent.set(response, setTimeout(cutSlow, millis).unref())
      owner.bytes += response.bytes
      total += response.bytes
      onChange(total)
      if (response.limited) {
        // A single response larger than the limit is sent.
        while (owner.bytes > limits.bytesPerOwner && owner.unsent.size > 1 && cutOldest(owner));
      }
      while (total > limits.bytes && cutOldest(largestOwner()));
      return () => remove(response)
    }
  }
}

/** The owning organization of each response. A response without one is counted for the client's address. */
const organizations = new WeakMap<ServerResponse, string>()

/** Assigns a response to an organization. */
export const setOrganization = (response: ServerResponse, org_id: string): void =>
  void organizations.set(response, org_id)

/** The organization of a response whose bytes are its own; undefined if it has none. */
export const organizationOf = (response: ServerResponse): string | undefined => organizations.get(response)
