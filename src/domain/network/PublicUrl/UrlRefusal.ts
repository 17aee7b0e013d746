import type { HostNameRefusal } from "./checkHostName.ts"

/** Why a URL is refused. A closed union: each member has a sentence in {@link urlRefusalDetail}. */
export type UrlRefusal =
  | "TooLong"
  | "RefusedCharacter"
  | "Fragment"
  | "NotHttps"
  | "NoHost"
  | "Credentials"
  | "PercentInHost"
  | "Malformed"
  | "AddressForm"
  | "WrappedAddress"
  | HostNameRefusal
  | "OwnHost"
  | "RefusedPort"
  | "NotPublic"
  | "Denied"

/** Maximum length of a URL, in UTF-16 code units. */
export const MAX_URL_LENGTH = 2048

/** The detail of 400 INVALID_URL: the fault and its remedy. It contains nothing of the URL. */
export const urlRefusalDetail: Readonly<Record<UrlRefusal, string>> = {
  TooLong: `The URL is too long: use at most ${MAX_URL_LENGTH} characters.`,
  RefusedCharacter:
    "The URL has white space, a backslash, or a control or invisible character: percent-encode it in the path or remove it.",
  Fragment: "The URL has a fragment, which is never sent: remove the # and everything after it.",
  NotHttps: "The URL must start with https://.",
  NoHost: "The URL has no host: write it as https://host/path.",
  Credentials: "The URL has a user name or password (an @ before the path): send credentials in a header.",
  PercentInHost: "The host must not be percent-encoded: write it without %.",
  Malformed: "This is not a well-formed URL: write it as https://host/path or https://host:port/path.",
  AddressForm: "Write the IPv4 address as four decimal numbers, such as 203.0.112.7, without leading zeros.",
  WrappedAddress: "The IPv6 address embeds an IPv4 address: write the IPv4 address itself.",
  TrailingDot: "The host ends with a dot: remove it.",
  SingleLabel: "The host must be a public name with a dot in it, such as hooks.acme.com.",
  NameTooLong: "The host is too long: a name has at most 253 characters.",
  BadLabel:
    "Each part of the host has 1 to 63 letters, digits, hyphens or underscores, and no hyphen at an end.",
  ReservedName: "The host ends in a reserved name such as .local or .internal: use a public name.",
  MetadataName: "The host is a cloud's metadata service: use the receiver's own public name.",
  OwnHost: "The host is this service itself: use the receiver's own public name.",
  RefusedPort:
    "Requests to this port are not allowed: use 443, or a port from 1024 on that is not a default port of a database, cache, broker or orchestrator.",
  NotPublic:
    "The host is, or resolves to, an address that is not public: use one that is reachable from the internet.",
  Denied: "The host's address is on the denylist of this service: use another host."
}
