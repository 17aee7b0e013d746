import { Schema } from "effect"
import { JsonValue } from "../domain/json/JsonValue.ts"
import { MAX_MESSAGE_LENGTH } from "../domain/approvals/ApprovalMessage.ts"
import { documented } from "../domain/documented.ts"
import { MAX_URL_LENGTH } from "../domain/network/PublicUrl/UrlRefusal.ts"
import { isPersonName, isVisibleLine, isVisibleText } from "../domain/VisibleText.ts"

/** A name that people read: 1 to 200 visible characters on one line. */
export const Name = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isVisibleLine)

/** The name of a person or of an API key. */
export const PersonName = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200), isPersonName)

/** PostgreSQL's text cannot contain NUL, so no stored text does. */
export const withoutNul = Schema.makeFilter((text: string) => !text.includes("\0"), {
  expected: "a text without NUL"
})

/** A URL that the service sends to. Other faults of the URL are `INVALID_URL`, not `INVALID_REQUEST`. */
export const publicUrl = documented<string>({ format: "uri", minLength: 1, maxLength: MAX_URL_LENGTH })

/** A person's or agent's remark: at most 4,000 characters. */
export const Comment = Schema.String.check(Schema.isMaxLength(4_000))

/** A message of a person or an agent: 1 to 4,000 characters, with a visible one. */
export const Message = Schema.String.check(
  Schema.isMinLength(1),
  Schema.isMaxLength(MAX_MESSAGE_LENGTH),
  isVisibleText
)

/** An agent's own summary of a step: at most 500 characters. */
export const Summary = Schema.String.check(Schema.isMaxLength(500))

/** Longest metadata, in characters of JSON. A page of a list holds a hundred of them. */
const MAX_METADATA = 16_384

/** The client's own data: a JSON object of at most 16,384 characters. */
export const Metadata = Schema.Record(Schema.String, JsonValue).check(
  Schema.makeFilter((metadata) => JSON.stringify(metadata).length <= MAX_METADATA, {
    expected: "at most 16384 characters of JSON"
  })
)
