/** Where a kind is documented: public rule lists of secret scanners, or the provider's own documentation. */
export type KindSource =
  | "betterleaks"
  | "github"
  | "gitlab"
  | "gitleaks"
  | "kingfisher"
  | "provider"
  | "trufflehog"

/**
 * - `any`: not a placeholder; for prefixes that occur nowhere else
 * - `digit`: also contains a digit, since a word may follow the prefix
 * - `random`: looks random, since ordinary names start with the same prefix
 */
export type KindCheck = "any" | "digit" | "random"

/** A kind of secret: literal prefixes, the characters after them, and a check that rejects ordinary texts with the same prefix. */
export interface SecretKind {
  readonly name: string
  readonly prefixes: ReadonlyArray<string>
  /** Sticky: matches directly after the prefix, in linear time, since each part is one run of a character class. */
  readonly body: RegExp
  readonly check: KindCheck
  readonly source: KindSource
}

/**
 * One line of a table of kinds. Lengths are minimums somewhat below the documented ones: a truncated token is still a secret, and a later
 * version may be longer. Checksums are not checked for the same reason.
 */
export const kind = (
  name: string,
  prefixes: string,
  body: string,
  source: KindSource,
  check: KindCheck = "any"
): SecretKind => ({ name, prefixes: prefixes.split(" "), body: new RegExp(body, "y"), check, source })

/** Letters and digits; `count` is a minimum. */
export const base62 = (count: number): string => `[0-9A-Za-z]{${count},512}`
/** Hexadecimal digits of either case; `count` is a minimum. */
export const hex = (count: number): string => `[0-9A-Fa-f]{${count},512}`
/** Letters, digits, `_` and `-`; `count` is a minimum. */
export const word = (count: number): string => `[0-9A-Za-z_-]{${count},1024}`
/** Base64 of either alphabet with its padding; `count` is a minimum. */
export const base64 = (count: number): string => `[0-9A-Za-z+/_-]{${count},2048}={0,2}`
/** Base64 parts joined by dots, with padding; `count` is a minimum. */
export const dotted = (count: number): string => `[0-9A-Za-z+/=_.-]{${count},2048}`
export const uuid = "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
