import { Schema } from "effect"
import { documentedEnum } from "../documentedEnum.ts"
import { isVisibleLine } from "../VisibleText.ts"

/** Maximum number of patterns and of exceptions of an organization. Each text is searched for all of them. */
export const MAX_PATTERNS = 50

/** Maximum length of a pattern, in characters. */
export const MAX_PATTERN_LENGTH = 500

/** Length of a value that is found wherever it is: texts are searched in parts that overlap by this length. */
export const MAX_MATCH = 512

export const PersonalData = documentedEnum({
  email_address: "Email addresses, except those of domains that are reserved for examples.",
  phone_number:
    "Phone numbers in international form, and national ones after a word such as `phone` or `Tel.`, or in a field of such a name.",
  card_number: "Numbers of payment cards with a correct check digit (Luhn).",
  iban: "International bank account numbers (IBAN) with the length of their country and correct check digits."
})
export type PersonalData = typeof PersonalData.Type

const name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(100), isVisibleLine)

const pattern = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_PATTERN_LENGTH))

export const RedactionPattern = Schema.Struct({
  name: name.annotateKey({
    description: "The pattern's purpose, such as `Employee number`. 1 to 100 characters."
  }),
  pattern: pattern.annotateKey({
    description:
      "A regular expression in RE2 syntax: no look-around and no back-references. At most 500 characters. Of a value longer than 512 characters, only a part may be found. `(?i)` at the start ignores case."
  })
}).annotate({ identifier: "RedactionPattern", description: "A regular expression with a name." })
export type RedactionPattern = typeof RedactionPattern.Type

const patterns = Schema.Array(RedactionPattern).check(Schema.isMaxLength(MAX_PATTERNS))

/** The rules of one organization, besides recognizable secrets. */
export const RedactionRules = Schema.Struct({
  patterns: patterns.annotateKey({
    description: "Values that are redacted besides recognizable secrets. At most 50."
  }),
  exceptions: patterns.annotateKey({
    description:
      "Values that stay, although they look like a secret or match a pattern. An exception must match the whole value that would be replaced. The organization's stored credentials are always redacted. At most 50."
  }),
  personal_data: Schema.Array(PersonalData)
    .check(Schema.isMaxLength(PersonalData.literals.length))
    .annotateKey({ description: "Kinds of personal data that are redacted too. Empty by default." }),
  redact_runs: Schema.Boolean.annotateKey({
    description:
      "Whether the inputs, answers and metadata of runs are redacted before they are logged. By default, runs are logged as they are. The provider gets the input and the caller the answer unchanged in either case."
  })
})
export type RedactionRules = typeof RedactionRules.Type
