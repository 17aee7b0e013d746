import { Schema } from "effect"

/** The most origins of an organization. */
export const MAX_ORIGINS = 50

const MAX_LENGTH = 300

/** 1,000 to 65,535. */
const HIGH_PORT = "[1-9][0-9]{3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"

/** 1 to 999 without 443, which browsers leave out. */
const LOW_PORT = "[1-9][0-9]?|[1-35-9][0-9]{2}|4[0-35-9][0-9]|44[0-24-9]"

const LABEL = "(?:[a-z0-9_]|[a-z0-9_][a-z0-9_-]*[a-z0-9_])"

/** A host name. Its last label begins with a letter: otherwise it is a number, and the whole an IPv4 address. */
const NAME = String.raw`(?:${LABEL}\.)*(?:[a-z]|[a-z][a-z0-9-]*[a-z0-9])`

const ORIGIN = new RegExp(
  String.raw`^(?:https:\/\/${NAME}(?::(?:${LOW_PORT}|${HIGH_PORT}))?|http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::(?:${HIGH_PORT}))?)$`,
  "u"
)

/**
 * A web origin whose pages may send feedback, in the form in which browsers send it (RFC 6454, section 6.2): scheme, name
 * in lower case, and the port unless it is the scheme's own. There are no wildcards. `http` is for a developer's own
 * machine: elsewhere, anything between the service and the page could change the page.
 */
export const WebOrigin = Schema.String.check(
  Schema.isMaxLength(MAX_LENGTH),
  Schema.isPattern(ORIGIN, {
    expected:
      "an origin such as https://app.example.com: https, the name in lower case, and the port unless it is 443; http for localhost only"
  })
)

/** Whether a text is a web origin that can be allowed. */
export const isWebOrigin = (text: string): boolean => text.length <= MAX_LENGTH && ORIGIN.test(text)
