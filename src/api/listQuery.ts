/** Query parameters that several lists have. */
import { Schema } from "effect"
import { documented } from "../domain/documented.ts"
import { documentedEnum } from "../domain/documentedEnum.ts"
import { withoutNul } from "./Text.ts"

/** Longest text that a list is searched for. */
export const MAX_SEARCH = 200

/** A text that a list is searched for. */
export const SearchText = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(MAX_SEARCH),
  withoutNul,
  documented({ minLength: 1, maxLength: MAX_SEARCH })
)

export const ListOrder = documentedEnum({
  newest: "Newest first.",
  oldest: "Oldest first."
})

/** The order of a list by time. */
export const listOrder = Schema.optionalKey(ListOrder).annotateKey({
  description: "The order of the list. Use each cursor with the order of its page. Default `newest`."
})

/** Words that the records of a list have. `subject`: the searched part, such as `whose name contains`. */
export const searchWords = (subject: string) =>
  Schema.optionalKey(SearchText).annotateKey({
    description: `Only records ${subject} each of these words, without regard to letter case: 1 to ${MAX_SEARCH} characters. A page examines a limited number of records, so it can have few items or none and a \`next_cursor\` nonetheless.`
  })
