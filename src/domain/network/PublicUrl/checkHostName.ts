/**
 * Last labels that no public name has: RFC 6761, 6762, 7686, 8375 and 9476, ICANN's `internal`, and the ones that private networks and
 * orchestrators use instead.
 */
const refusedLastLabels: ReadonlySet<string> = new Set([
  "localhost",
  "local",
  "internal",
  "localdomain",
  "lan",
  "home",
  "corp",
  "intranet",
  "private",
  "test",
  "invalid",
  "example",
  "onion",
  "alt",
  "arpa",
  "svc",
  "cluster",
  "consul"
])

/** Names under which clouds serve credentials to their guests. Their subdomains are refused too. */
const metadataNames: ReadonlyArray<string> = [
  "metadata",
  "instance-data",
  "instance-data.ec2.internal",
  "metadata.google.internal",
  "metadata.goog",
  "metadata.azure.com",
  "metadata.azure.internal",
  "metadata.packet.net",
  "metadata.platformequinix.com",
  "metadata.tencentyun.com",
  "api.metadata.cloud.ibm.com",
  "metadata.cloud.ibm.com"
]

/** Longest label and longest name, in octets without the trailing dot (RFC 1035, 2.3.4). */
const MAX_LABEL = 63
const MAX_NAME = 253

/** Letters, digits, inner hyphens, and underscores, which RFC 1034 does not allow but many real hosts have. */
const label = /^[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?$/

/** Why a host name is refused. */
export type HostNameRefusal =
  | "TrailingDot"
  | "SingleLabel"
  | "NameTooLong"
  | "BadLabel"
  | "ReservedName"
  | "MetadataName"

/** Checks a host name as the URL parser normalizes it: lower case, IDN in punycode. */
export const checkHostName = (name: string): HostNameRefusal | undefined => {
  if (name.endsWith(".")) return "TrailingDot"
  if (name.length > MAX_NAME) return "NameTooLong"
  if (metadataNames.some((known) => name === known || name.endsWith(`.${known}`))) return "MetadataName"
  const labels = name.split(".")
  const last = labels.at(-1) ?? ""
  if (refusedLastLabels.has(last)) return "ReservedName"
  if (labels.length < 2) return "SingleLabel"
  return labels.every((part) => part.length <= MAX_LABEL && label.test(part)) ? undefined : "BadLabel"
}
