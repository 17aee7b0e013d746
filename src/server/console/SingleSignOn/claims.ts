import { Schema } from "effect"
import { isVisibleLine } from "../../../domain/VisibleText.ts"
import type { SingleSignOnSettings } from "../../../domain/identity/SingleSignOnSettings.ts"
import type { VerifiedPerson } from "../../identity/People.ts"

/** The most groups of a person that are read. */
const MAX_CLAIMED_GROUPS = 1_000

const MAX_NAME_LENGTH = 150
const ADDRESS = /^[^\s@<>"\\,;:]+@[^\s@<>"\\,;:]+$/u

const isVisibleText = Schema.is(Schema.String.check(isVisibleLine))

/** A claim that is a line of visible text. */
const lineOf = (claim: unknown, maxLength: number): string | undefined =>
  typeof claim === "string" && claim.trim() !== "" && claim.length <= maxLength && isVisibleText(claim)
    ? claim.trim()
    : undefined

/** The person whom the validated claims describe. Claims of another type count as absent. */
export const personOf = (
  claims: Readonly<Record<string, unknown>> & { readonly sub: string; readonly iss?: unknown },
  { groupsClaim, issuer }: Pick<SingleSignOnSettings, "groupsClaim" | "issuer">
): VerifiedPerson => {
  const address = lineOf(claims["email"], 254)
  const email = address !== undefined && ADDRESS.test(address) ? address : null
  const groups = claims[groupsClaim]
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
    isEmailVerified: email !== null && claims["email_verified"] === true,
    groups: (Array.isArray(groups) ? groups : [groups])
      .slice(0, MAX_CLAIMED_GROUPS)
      .filter((group): group is string => typeof group === "string")
  }
}
