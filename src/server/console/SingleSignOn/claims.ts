import { Schema } from "effect"
import { isPersonName } from "../../../domain/VisibleText.ts"
import type { SingleSignOnSettings } from "../../../domain/identity/SingleSignOnSettings.ts"
import type { VerifiedPerson } from "../../identity/People.ts"

/** The most groups of a person that are read. */
const MAX_CLAIMED_GROUPS = 1_000

const MAX_NAME_LENGTH = 150
const ADDRESS = /^[^\s@<>"\\,;:]+@[^\s@<>"\\,;:]+$/u

const isVisibleText = Schema.is(Schema.String.check(isPersonName))

/** A claim that is a line of visible text. */
const lineOf = (claim: unknown, maxLength: number): string | undefined =>
  typeof claim === "string" && claim.trim() !== "" && claim.length <= maxLength && isVisibleText(claim)
    ? claim.trim()
    : undefined

/** Validated claims about a person. */
export type Claims = Readonly<Record<string, unknown>> & { readonly sub: string }

/** The member of an object with this name; undefined of anything else. */
const memberOf = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, name)
    ? Reflect.get(value, name)
    : undefined

/** A claim by its name, which can have dots, or by a path of names, such as `realm_access.roles`. */
const claimOf = (claims: Claims, name: string): unknown =>
  memberOf(claims, name) ?? name.split(".").reduce<unknown>(memberOf, claims)

/** Some providers state truth values as text. */
const isTrue = (claim: unknown): boolean => claim === true || claim === "true"

/** Whether a person's groups and address are among the claims, and whether the address is verified. */
export const hasGroupsAndEmail = (claims: Claims, groupsClaim: string): boolean =>
  claimOf(claims, groupsClaim) !== undefined &&
  claims["email"] !== undefined &&
  claims["email_verified"] !== undefined

/** Whether one of the claims that a person's access and name depend on is missing. */
export const lacksClaims = (claims: Claims, groupsClaim: string): boolean =>
  !hasGroupsAndEmail(claims, groupsClaim) ||
  (claims["name"] === undefined && claims["preferred_username"] === undefined)

/**
 * The claims of an ID token, and missing ones from the userinfo endpoint. What userinfo says about an address counts for that address
 * only.
 */
export const withUserinfo = (claims: Claims, userinfo: Readonly<Record<string, unknown>>): Claims => {
  const { email_verified, ...others } = userinfo
  const isAboutEmail = claims["email"] === undefined || claims["email"] === userinfo["email"]
  return { ...others, ...(isAboutEmail && email_verified !== undefined ? { email_verified } : {}), ...claims }
}

const kindOf = (claim: unknown): string =>
  Array.isArray(claim) ? "a list" : claim === null ? "null" : `a value of the type ${typeof claim}`

/** Claims of a type that cannot be read, for the log: the name, the expected type and the actual type, without the value. */
export const unreadableClaims = (
  claims: Claims,
  groupsClaim: string
): ReadonlyArray<{ readonly claim: string; readonly expected: string; readonly got: string }> => {
  const groups = claimOf(claims, groupsClaim)
  const isReadable =
    groups === undefined ||
    (Array.isArray(groups) ? groups : [groups]).every((group) => typeof group === "string")
  const verified = claims["email_verified"]
  return [
    ...(isReadable
      ? []
      : [{ claim: groupsClaim, expected: "a text or a list of texts", got: kindOf(groups) }]),
    ...(verified === undefined || typeof verified === "boolean" || verified === "true" || verified === "false"
      ? []
      : [{ claim: "email_verified", expected: "true or false", got: kindOf(verified) }])
  ]
}

/** The person whom the validated claims describe. Claims of another type count as absent. */
export const personOf = (
  claims: Claims,
  { groupsClaim, issuer }: Pick<SingleSignOnSettings, "groupsClaim" | "issuer">
): VerifiedPerson => {
  const address = lineOf(claims["email"], 254)
  const email = address !== undefined && ADDRESS.test(address) ? address : null
  const groups = claimOf(claims, groupsClaim)
  const name =
    lineOf(claims["name"], MAX_NAME_LENGTH) ??
    lineOf(claims["preferred_username"], MAX_NAME_LENGTH) ??
    email ??
    claims.sub
  return {
    issuer,
    subject: claims.sub,
    name,
    email,
    isEmailVerified: email !== null && isTrue(claims["email_verified"]),
    groups: (Array.isArray(groups) ? groups : [groups])
      .slice(0, MAX_CLAIMED_GROUPS)
      .filter((group): group is string => typeof group === "string")
  }
}
