/** Mutants of email: recipients, limits, and how replies of the mail server are interpreted. */
import type { ListedMutant } from "../list.ts"

const smtp = "server/notifications/Email/Smtp.ts"
const rows = "server/notifications/Email/rows.ts"
const channel = "server/notifications/Email/MailChannel.ts"
const addressLimit = "server/notifications/Email/makeAddressLimit.ts"

const smtpTests = ["server/notifications/Email/Smtp.test.ts"]
const emailTests = ["server/notifications/Email.test.ts"]
const channelTests = ["server/notifications/Email/MailChannel.test.ts"]
const limitTests = ["server/notifications/Email/makeAddressLimit.test.ts"]

export const mail: ReadonlyArray<ListedMutant> = [
  { file: smtp, from: "if (status === 421) return retry(", to: "if (false) return retry(", tests: smtpTests },
  {
    file: smtp,
    from: 'if (command === "MAIL FROM" && status !== null) return',
    to: "if (false) return",
    tests: smtpTests
  },
  {
    file: smtp,
    from: "return status !== null && status < 500",
    to: "return status !== null",
    tests: smtpTests
  },
  {
    file: smtp,
    from: 'url.username !== "" && !["localhost"',
    to: 'false && !["localhost"',
    tests: smtpTests
  },
  {
    file: smtp,
    from: "for (const name of LOGGING_PARAMETERS) url.searchParams.delete(name)",
    to: "",
    tests: smtpTests
  },
  { file: smtp, from: 'to: { name: "", address: to }', to: "to", tests: smtpTests },
  {
    file: channel,
    from: "if (!usable || email === null) return",
    to: "if (email === null) return",
    tests: channelTests
  },
  {
    file: channel,
    from: 'return type !== "approval.expired" && status !== "pending" ?',
    to: "return false ?",
    tests: channelTests
  },
  {
    file: channel,
    from: 'outcome._tag === "Retry" && outcome.fault !== "delivery" ? outcome.error : null',
    to: 'outcome._tag === "Retry" ? outcome.error : null',
    tests: channelTests
  },
  {
    file: rows,
    from: "AND (expires_at IS NULL OR expires_at > ${toDate(now)})",
    to: "",
    tests: emailTests
  },
  {
    file: rows,
    from: "AND email IS NOT NULL AND revoked_at IS NULL",
    to: "AND email IS NOT NULL",
    tests: emailTests
  },
  { file: rows, from: "SELECT DISTINCT ON (address) *", to: "SELECT *", tests: emailTests },
  { file: rows, from: "ORDER BY admin DESC, address LIMIT", to: "ORDER BY address LIMIT", tests: emailTests },
  {
    file: rows,
    from: "WHERE org_id = ${org_id} AND email IS NOT NULL",
    to: "WHERE email IS NOT NULL",
    tests: emailTests
  },
  {
    file: rows,
    from: "AND (api_keys.expires_at IS NULL OR api_keys.expires_at > ${toDate(now)}::timestamptz) AS usable",
    to: "AS usable",
    tests: channelTests
  },
  {
    file: "server/notifications/Email.ts",
    from: ".filter(({ scopes }) => scopes.includes(scope))",
    to: "",
    tests: emailTests
  },
  {
    file: addressLimit,
    from: "`${org_id} ${address.toLowerCase()}`",
    to: "address.toLowerCase()",
    tests: limitTests
  },
  {
    file: addressLimit,
    from: "`${org_id} ${address.toLowerCase()}`",
    to: "`${org_id} ${address}`",
    tests: limitTests
  },
  {
    file: addressLimit,
    from: '(outcome._tag === "Delivered" ? Effect.void : giveBack)',
    to: "Effect.void",
    tests: limitTests
  },
  { file: addressLimit, from: "Effect.onInterrupt(() => giveBack)", to: "", tests: limitTests }
]
