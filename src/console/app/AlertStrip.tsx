import type { ReactNode } from "react"
import { type Alerts, DUE_SOON_MINUTES, MAX_ALERT_COUNT } from "../../api/console/Overview.ts"
import { describeStop } from "../../domain/approvals/Reviewer/describeStop.ts"
import { useAlerts, useFollowedAlerts } from "../state/alerts.ts"
import { Countdown, TimeOfDay } from "../ui/Time.tsx"
import { UntrustedText } from "../ui/UntrustedText.tsx"
import { Link } from "./router.tsx"

interface AlertItem {
  readonly key: string
  readonly to: string
  readonly isUrgent: boolean
  readonly text: ReactNode
}

/** A count that ends at `MAX_ALERT_COUNT`, with its noun. */
const countOf = (count: number, one: string, many: string): string =>
  `${count > MAX_ALERT_COUNT ? `${MAX_ALERT_COUNT}+` : count} ${count === 1 ? one : many}`

const percentOf = (share: number): string => `${Math.min(100, Math.floor(share * 100))} %`

const limitNames = { runs: "stored runs", feedback: "feedback records", bytes: "storage" } as const

const approvalItems = ({
  due_soon,
  escalated,
  next_due_at,
  unknown_executions
}: NonNullable<Alerts["approvals"]>): ReadonlyArray<AlertItem> => [
  ...(due_soon === 0 || next_due_at === null
    ? []
    : [
        {
          key: "due",
          to: "/approvals?show=all",
          isUrgent: true,
          text: (
            <>
              {countOf(due_soon, "approval is", "approvals are")} due within {DUE_SOON_MINUTES} min, the next
              in <Countdown until={next_due_at} />
            </>
          )
        }
      ]),
  ...(escalated === 0
    ? []
    : [
        {
          key: "escalated",
          to: "/approvals?show=all",
          isUrgent: true,
          text: `${countOf(escalated, "approval", "approvals")} escalated to admins`
        }
      ]),
  ...(unknown_executions === 0
    ? []
    : [
        {
          key: "executions",
          to: "/executions",
          isUrgent: true,
          text: `${countOf(unknown_executions, "execution", "executions")} with an unknown outcome`
        }
      ])
]

const endpointItems = (endpoints: NonNullable<Alerts["endpoints"]>): ReadonlyArray<AlertItem> => {
  const failing = endpoints.filter(({ failing_since }) => failing_since !== null)
  const full = endpoints.filter(({ queue_use }) => queue_use >= 1)
  const [first] = endpoints
  if (first === undefined) return []
  const waiting = endpoints.reduce((sum, endpoint) => sum + endpoint.waiting, 0)
  const isOne = endpoints.length === 1
  return [
    {
      key: "endpoints",
      to: isOne ? `/endpoints/${first.id}` : "/endpoints",
      isUrgent: true,
      text: (
        <>
          {isOne ? (
            <>
              Webhook endpoint <UntrustedText text={first.name} />{" "}
              {first.failing_since === null ? (
                "is slow"
              ) : (
                <>
                  fails since <TimeOfDay time={first.failing_since} />
                </>
              )}
            </>
          ) : failing.length === 0 ? (
            `${endpoints.length} webhook endpoints are slow`
          ) : (
            countOf(failing.length, "webhook endpoint fails", "webhook endpoints fail")
          )}
          , {waiting.toLocaleString("en")} {waiting === 1 ? "delivery waits" : "deliveries wait"}
          {full.length === 0 ? null : ", the queue is full and new deliveries fail"}
        </>
      )
    }
  ]
}

const collectorItem = ({ failing_since, queue_use }: NonNullable<Alerts["collector"]>): AlertItem => ({
  key: "collector",
  to: "/telemetry",
  isUrgent: false,
  text: (
    <>
      The telemetry collector{" "}
      {failing_since === null ? (
        "is slow"
      ) : (
        <>
          fails since <TimeOfDay time={failing_since} />
        </>
      )}
      , its queue is {percentOf(queue_use)} full
    </>
  )
})

const reviewerItems = (reviewers: NonNullable<Alerts["reviewers"]>): ReadonlyArray<AlertItem> =>
  reviewers.map(({ id, name, stopped_at, stopped_reason }) => ({
    key: id,
    to: `/reviewers/${id}`,
    isUrgent: true,
    text: (
      <>
        Reviewer model <UntrustedText text={name} /> no longer decides since <TimeOfDay time={stopped_at} />
        {": "}
        {describeStop(stopped_reason)}
      </>
    )
  }))

const itemsOf = ({
  approvals,
  collector,
  endpoints,
  limits,
  reviewers
}: Alerts): ReadonlyArray<AlertItem> => [
  ...(approvals === null ? [] : approvalItems(approvals)),
  ...(endpoints === null ? [] : endpointItems(endpoints)),
  ...(reviewers === null ? [] : reviewerItems(reviewers)),
  ...limits.map(({ of, use }) => ({
    key: of,
    to: "/data",
    isUrgent: use >= 1,
    text:
      use >= 1
        ? `The limit of ${limitNames[of]} is reached: new records are refused`
        : `${percentOf(use)} of the limit of ${limitNames[of]} is used`
  })),
  ...(collector === null ? [] : [collectorItem(collector)])
]

/** The conditions that need a person now, on top of every page. Without any its place stays empty: nothing moves under a pointer when one begins or ends. */
export const AlertStrip = () => {
  useFollowedAlerts()
  const alerts = useAlerts()
  const items = alerts === undefined ? [] : itemsOf(alerts)
  return items.length === 0 ? (
    <div className="no-alerts" />
  ) : (
    <section className="alerts" aria-label="Needs attention">
      <ul>
        {items.map(({ isUrgent, key, text, to }) => (
          <li key={key}>
            <Link to={to} className={isUrgent ? "alert urgent" : "alert"}>
              <span>{text}</span>
            </Link>
          </li>
        ))}
      </ul>
    </section>
  )
}

/** The number of alerts that a navigation entry leads to. */
export const AlertCount = ({ path }: { readonly path: string }) => {
  const alerts = useAlerts()
  const count = alerts === undefined ? 0 : countAt(alerts, path)
  return count === 0 ? null : (
    <span className="nav-badge urgent">
      {count > MAX_ALERT_COUNT ? `${MAX_ALERT_COUNT}+` : count}
      <span className="visually-hidden"> {count === 1 ? "alert" : "alerts"}</span>
    </span>
  )
}

const countAt = ({ approvals, collector, endpoints, reviewers }: Alerts, path: string): number => {
  switch (path) {
    case "/endpoints":
      return endpoints?.length ?? 0
    case "/telemetry":
      return collector === null ? 0 : 1
    case "/reviewers":
      return reviewers?.length ?? 0
    case "/executions":
      return approvals?.unknown_executions ?? 0
    default:
      return 0
  }
}
