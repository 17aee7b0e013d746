/** The rights of a new key: its scopes, its expiry and its allowed networks, as requested and within its maker's. */
import { DateTime, Effect } from "effect"
import { IpNetwork } from "effect/net"
import type { NewApiKey } from "../../../api/ApiKeys.ts"
import { InsufficientScope, InvalidRequest } from "../../../api/Problems.ts"
import { findNetworkOutside } from "../../../domain/identity/AllowedNetworks.ts"
import type { Principal } from "../../../domain/identity/Principal.ts"
import { presetScopes, type Scope } from "../../../domain/identity/Scope.ts"
import { formatTimestamp, type Timestamp } from "../../../domain/Time.ts"
import type { KeyRow } from "./rows.ts"

/** Refuses a request because of one of its members. */
export const invalid = (pointer: string, detail: string) =>
  Effect.fail(new InvalidRequest({ detail, errors: [{ pointer, detail }] }))

/** A key's expiry and allowed networks. Null: it never expires, and may be used from anywhere. */
export type KeyLimits = Pick<KeyRow, "expires_at" | "allowed_networks">

/** The requested limits: an expiry in the future, and networks in their canonical notation. */
export const limitsIn = Effect.fnUntraced(function* (
  { allowed_networks = null, expires_at = null }: NewApiKey,
  now: Timestamp
): Effect.fn.Return<KeyLimits, InvalidRequest> {
  if (expires_at !== null && DateTime.isLessThanOrEqualTo(expires_at, now)) {
    return yield* invalid("#/expires_at", "Expected a time in the future.")
  }
  const networks = allowed_networks?.map((network) => IpNetwork.format(IpNetwork.fromStringUnsafe(network)))
  return { expires_at, allowed_networks: networks === undefined ? null : [...new Set(networks)] }
})

/** The requested expiry, or the maker's, which is the latest possible. */
export const expiryWithin = (requested: Timestamp | null, maker: Timestamp | null) => {
  if (maker === null || requested === null) return Effect.succeed(requested ?? maker)
  return DateTime.isGreaterThan(requested, maker)
    ? invalid(
        "#/expires_at",
        `The calling key expires at ${formatTimestamp(maker)}; a key that it creates cannot expire later.`
      )
    : Effect.succeed(requested)
}

/** The requested networks, or the maker's, which must contain them. */
export const networksWithin = (
  requested: ReadonlyArray<string> | null,
  maker: ReadonlyArray<string> | null
) => {
  if (maker === null || requested === null) return Effect.succeed(requested ?? maker)
  const outside = findNetworkOutside(
    requested.map(IpNetwork.fromStringUnsafe),
    maker.map(IpNetwork.fromStringUnsafe)
  )
  return outside < 0
    ? Effect.succeed(requested)
    : invalid(
        `#/allowed_networks/${outside}`,
        `The calling key may be used from ${maker.join(", ")} only, and so may a key that it creates.`
      )
}

/** The scopes that the request names; undefined if none. Generated clients send their default, an empty list. */
export const requestedScopes = ({ scopes = [] }: NewApiKey): ReadonlyArray<Scope> | undefined =>
  scopes.length === 0 ? undefined : scopes

/** The scopes of a new key: `scopes`, which must be in `preset` if there is one, or else all scopes of `preset`. */
export const scopesOf = (input: NewApiKey): Effect.Effect<ReadonlyArray<Scope>, InvalidRequest> => {
  const preset = input.preset === undefined ? undefined : presetScopes(input.preset)
  const requested = requestedScopes(input)
  if (requested === undefined) {
    return preset === undefined
      ? invalid("#/scopes", "A preset or at least one scope is required.")
      : Effect.succeed(preset)
  }
  const extra = requested.find((scope) => preset !== undefined && !preset.includes(scope))
  return extra === undefined
    ? Effect.succeed([...new Set(requested)])
    : invalid("#/scopes", `The preset does not include ${extra}.`)
}

/** The rights of a key. */
type Rights = Pick<Principal, "groups" | "scopes">

/**
 * Whether a key can give a group: one of its own, or any with `rules.write`, because a key that replaces the rules decides whether a group's
 * approval is needed.
 */
const mayGiveGroup = ({ groups, scopes }: Rights, group: string): boolean =>
  scopes.has("rules.write") || groups.includes(group)

/** Refuses a new key with more rights than its maker, and one of a maker that creates no keys any more. */
export const requireGivable = (
  input: NewApiKey,
  scopes: ReadonlyArray<Scope>,
  maker: Rights
): Effect.Effect<void, InsufficientScope> => {
  const missing = maker.scopes.has("keys.write")
    ? scopes.find((scope) => !maker.scopes.has(scope))
    : "keys.write"
  if (missing !== undefined) {
    const detail = `This key cannot grant ${missing}, because it does not have that scope.`
    const pointer = requestedScopes(input) === undefined ? "#/preset" : "#/scopes"
    return new InsufficientScope({ detail, required_scope: missing, errors: [{ pointer, detail }] })
  }
  const { groups = [] } = input
  const foreign = groups.findIndex((group) => !mayGiveGroup(maker, group))
  if (foreign < 0) return Effect.void
  const detail = "This key can give only its own groups, because it does not have rules.write."
  return new InsufficientScope({
    detail,
    required_scope: "rules.write",
    errors: [{ pointer: `#/groups/${foreign}`, detail }]
  })
}

/**
 * A caller can change and revoke only keys, block only people, and end only invitations and the sessions of other keys, with rights of its
 * own. By another name it would act as someone with more rights, and approval emails show records that the rights allow to read. A key for
 * keys must not lock out the admins.
 */
export const requireRightsOf = ({ groups, scopes }: Pick<KeyRow, "groups" | "scopes">, caller: Principal) => {
  const missing = scopes.find((scope) => !caller.scopes.has(scope))
  if (missing !== undefined) {
    return new InsufficientScope({
      detail: `This key does not have the scope ${missing}, which the other one has.`,
      required_scope: missing
    })
  }
  return groups.every((group) => mayGiveGroup(caller, group))
    ? Effect.void
    : new InsufficientScope({
        detail:
          "This key does not have all groups of the other one, and does not have rules.write, which stands in for them.",
        required_scope: "rules.write"
      })
}
