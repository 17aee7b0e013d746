import { Option, Redacted, Schema } from "effect"
import { FeedbackToken } from "../FeedbackToken.ts"

/** Begins the text of every token, and tells tokens from API keys. */
const PREFIX = "cft_"

/** Longest text of a token, with as many and as long labels as it can have. */
const MAX_LENGTH = 8 * 1024

const encode = Schema.encodeSync(Schema.fromJsonString(FeedbackToken))
const decode = Schema.decodeUnknownOption(Schema.fromJsonString(FeedbackToken))

/** The text of a token: `cft_<claims as JSON in base64url>.<signature>`. `sign` signs the text before the signature. */
export const formatFeedbackToken = (
  token: FeedbackToken,
  sign: (text: string) => string
): Redacted.Redacted => {
  const signed = PREFIX + Buffer.from(encode(token)).toString("base64url")
  return Redacted.make(`${signed}.${sign(signed)}`, { label: "FeedbackToken" })
}

/** The token with this text, if its signature is valid. The text is decoded only then. */
export const parseFeedbackToken = (
  text: string,
  isSigned: (text: string, signature: string) => boolean
): Option.Option<FeedbackToken> => {
  if (text.length > MAX_LENGTH || !text.startsWith(PREFIX)) return Option.none()
  const end = text.indexOf(".")
  if (end < 0 || !isSigned(text.slice(0, end), text.slice(end + 1))) return Option.none()
  return decode(Buffer.from(text.slice(PREFIX.length, end), "base64url").toString("utf8"))
}
