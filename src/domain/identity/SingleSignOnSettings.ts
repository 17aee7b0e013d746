import { type Array as Arr, type Redacted, Schema } from "effect"
import { Group, MAX_GROUPS } from "./Group.ts"
import { Preset } from "./Scope.ts"

/** The rights of the members of a group of the identity provider in one organization. */
export const AccessRule = Schema.Struct({
  /** The organization's name. */
  organization: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200)),
  /** A value of the claim of groups; absent: everyone who signs in. */
  group: Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(500))),
  preset: Preset,
  /** Groups that quorums of approval rules name. */
  groups: Schema.optionalKey(Schema.Array(Group).check(Schema.isMaxLength(MAX_GROUPS)))
})
export type AccessRule = typeof AccessRule.Type

/** How the service proves to the provider who it is: by a secret, or by a signature (`private_key_jwt`). */
export type ClientCredential =
  | { readonly _tag: "Secret"; readonly secret: Redacted.Redacted }
  | {
      readonly _tag: "PrivateKey"
      /** PKCS #8 in PEM. */
      readonly pem: Redacted.Redacted
      readonly algorithm: ClientKeyAlgorithm
      /** The key's id at the provider; undefined: it has none. */
      readonly keyId: string | undefined
    }

/** The algorithm of a client's signatures. */
export type ClientKeyAlgorithm = "RS256" | "ES256" | "EdDSA"

/** Settings of single sign-on. */
export interface SingleSignOnSettings {
  /** The issuer's identifier, exactly as the provider states it. */
  readonly issuer: string
  readonly clientId: string
  readonly client: ClientCredential
  /** The scopes to request, separated by blanks. */
  readonly scopes: string
  /** The claim with the groups of a person. */
  readonly groupsClaim: string
  /** Domains of verified addresses whose owners may sign in, in lower case; undefined: any address, or none. */
  readonly emailDomains: ReadonlyArray<string> | undefined
  readonly access: Arr.NonEmptyReadonlyArray<AccessRule>
  /** The provider's name on the sign-in page. */
  readonly name: string
}
