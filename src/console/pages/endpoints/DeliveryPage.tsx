import { DateTime, Option, Schema } from "effect"
import { Atom } from "effect/reactivity"
import { useState } from "react"
import type { LoggedDeliveryDetail } from "../../../api/console/Deliveries.ts"
import type { DeliveryAttempt } from "../../../domain/delivery/DeliveryState.ts"
import { DeliveryId, EndpointId } from "../../../domain/Ids.ts"
import { usePageTitle } from "../../app/PageTitle.tsx"
import { Link } from "../../app/router.tsx"
import type { PageProps } from "../../app/routes.ts"
import { refresh, useAtomValue } from "../../state/atoms.ts"
import { apiClient } from "../../state/apiClient.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { useCan } from "../../state/session.ts"
import { useRefreshing } from "../../state/useRefreshing.ts"
import { AsyncContent } from "../../ui/AsyncContent.tsx"
import { Badge } from "../../ui/Badge.tsx"
import { Button } from "../../ui/Button.tsx"
import { CopyableId, CopyButton } from "../../ui/CopyButton.tsx"
import { CopyRecord } from "../../ui/CopyRecord.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { JsonTree } from "../../ui/JsonTree.tsx"
import { PageHeader } from "../../ui/PageHeader.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { AbsoluteTime, formatSeconds, RelativeTime } from "../../ui/Time.tsx"
import { showToast } from "../../ui/Toasts.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"
import { deliveryStatuses } from "./DeliveryLog.tsx"
import { EndpointName } from "./EndpointName.tsx"
import { endpointsAtom } from "./Endpoints.tsx"
import { verificationSnippets } from "./verificationSnippets.ts"

const detailAtom = Atom.family(
  (params: { readonly endpoint_id: EndpointId; readonly delivery_id: DeliveryId }) =>
    Atom.make(consoleClient.deliveries.get({ params }))
)

const isEndpointId = Schema.is(EndpointId)
const isDeliveryId = Schema.is(DeliveryId)
const parseJson = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))

/** One delivery: its attempts, its event, and how a receiver verifies it. */
export default function DeliveryPage({ params }: PageProps) {
  const { delivery, id } = params
  return isEndpointId(id) && isDeliveryId(delivery) ? (
    <Loaded endpoint_id={id} delivery_id={delivery} />
  ) : (
    <EmptyState title="Delivery not found">
      <Link to="/deliveries">All deliveries</Link>
    </EmptyState>
  )
}

const Loaded = ({
  delivery_id,
  endpoint_id
}: {
  readonly endpoint_id: EndpointId
  readonly delivery_id: DeliveryId
}) => {
  const atom = detailAtom({ endpoint_id, delivery_id })
  useRefreshing(atom)
  return (
    <AsyncContent atom={atom}>
      {(detail) => <Detail detail={detail} onChange={() => refresh(atom)} />}
    </AsyncContent>
  )
}

const Detail = ({
  detail,
  onChange
}: {
  readonly detail: LoggedDeliveryDetail
  readonly onChange: () => void
}) => {
  const can = useCan()
  const endpoints = useAtomValue(endpointsAtom)
  usePageTitle(detail.type, detail.tool ?? undefined)
  const endpoint =
    endpoints._tag === "Success"
      ? endpoints.value.endpoints.find(({ id }) => id === detail.endpoint_id)
      : undefined
  const replay = useAction(() =>
    apiClient.notificationEndpoints.replayDelivery({
      params: { id: detail.endpoint_id, delivery_id: detail.id }
    })
  )
  const [tone, status] = deliveryStatuses[detail.status]
  return (
    <div className="stack">
      <p>
        <Link to={`/endpoints/${detail.endpoint_id}`}>
          ← {endpoint === undefined ? "Endpoint" : <EndpointName endpoint={endpoint} />}
        </Link>
      </p>
      <PageHeader
        title={<UntrustedText text={detail.type} />}
        aside={
          detail.status === "failed" && endpoint?.active === true && can("org_config.write") ? (
            <Button
              kind="primary"
              pending={replay.pending}
              onClick={() =>
                void replay.run().then((queued) => {
                  if (queued !== undefined) showToast("Delivery queued")
                  onChange()
                  return undefined
                })
              }
            >
              Replay
            </Button>
          ) : null
        }
      >
        <Badge tone={tone}>{status}</Badge>{" "}
        {detail.tool === null ? null : <UntrustedText text={detail.tool} />} ·{" "}
        <AbsoluteTime time={detail.created_at} />
        {detail.next_attempt_at === null ? null : (
          <>
            {" "}
            · next attempt <RelativeTime time={detail.next_attempt_at} />
          </>
        )}
      </PageHeader>
      <FailureNotice failure={replay.failure} />
      {detail.last_error === null ? null : (
        <p className="notice bad">
          <UntrustedText text={detail.last_error} />
        </p>
      )}
      <section className="card padded stack" aria-labelledby="attempts">
        <h2 id="attempts">Attempts</h2>
        <Attempts detail={detail} />
      </section>
      <section className="card padded stack" aria-labelledby="event">
        <h2 id="event">Event</h2>
        <dl className="delivery-facts">
          <dt>Event id</dt>
          <dd>
            <CopyableId id={detail.event_id} of="event" />
          </dd>
          <dt>Delivery id</dt>
          <dd>
            <CopyRecord
              id={detail.id}
              of="delivery"
              path={`/v1/notification-endpoints/${detail.endpoint_id}/deliveries/${detail.id}`}
            />
          </dd>
          {detail.approval_id === null ? null : (
            <>
              <dt>Approval</dt>
              <dd>
                {can("approvals.read") ? (
                  <Link className="id" to={`/approvals/${detail.approval_id}`}>
                    {detail.approval_id}
                  </Link>
                ) : (
                  <span className="id">{detail.approval_id}</span>
                )}
              </dd>
            </>
          )}
        </dl>
        {detail.event_json === null ? (
          <p className="quiet">
            {can("approvals.read")
              ? "The event was removed by retention."
              : "Showing the event needs the scope approvals.read."}
          </p>
        ) : (
          <JsonTree label="Event" unfolded value={Option.getOrUndefined(parseJson(detail.event_json))} />
        )}
      </section>
      <section className="card padded stack" aria-labelledby="headers">
        <h2 id="headers">Headers</h2>
        <p className="quiet small">Of the last attempt. Its signatures are left out.</p>
        <dl className="delivery-facts">
          {detail.headers.map(({ name, value }) => (
            <div key={name} className="delivery-header">
              <dt>{name}</dt>
              <dd className="id">{value}</dd>
            </div>
          ))}
        </dl>
      </section>
      <Verification />
    </div>
  )
}

/** The width of the bar of the longest attempt. */
const BAR_WIDTH = 200

/** The attempts in their order: when each started after the first, how long it took, and its response. */
const Attempts = ({ detail }: { readonly detail: LoggedDeliveryDetail }) => {
  const { attempt_log } = detail
  const [first] = attempt_log
  if (first === undefined) return <p className="quiet">No attempts.</p>
  const longest = Math.max(1, ...attempt_log.map(({ duration_ms }) => duration_ms))
  return (
    <ol className="attempt-timeline">
      {attempt_log.map((attempt) => (
        <li key={attempt.attempt} className={attempt.error === null ? "attempt good" : "attempt bad"}>
          <span className="attempt-at">
            <AbsoluteTime time={attempt.started_at} />
            <span className="quiet small"> {after(first, attempt)}</span>
          </span>
          <span>
            <UntrustedText text={attempt.error ?? `HTTP ${attempt.status ?? ""}`} />
          </span>
          <span className="attempt-duration">
            <svg viewBox={`0 0 ${BAR_WIDTH} 8`} preserveAspectRatio="none" aria-hidden="true">
              <rect width={Math.max(2, (attempt.duration_ms / longest) * BAR_WIDTH)} height="8" rx="2" />
            </svg>
            <span className="small">{attempt.duration_ms.toLocaleString("en")} ms</span>
          </span>
        </li>
      ))}
    </ol>
  )
}

const after = (first: DeliveryAttempt, attempt: DeliveryAttempt): string => {
  if (attempt === first) return ""
  const seconds =
    (DateTime.toEpochMillis(attempt.started_at) - DateTime.toEpochMillis(first.started_at)) / 1_000
  return `after ${formatSeconds(seconds)}`
}

type Language = keyof typeof verificationSnippets

/** How a receiver verifies the signature. */
const Verification = () => {
  const [language, setLanguage] = useState<Language>("typescript")
  return (
    <section className="card padded stack" aria-labelledby="verification">
      <div className="delivery-verification">
        <h2 id="verification">Verify the signature</h2>
        <Tabs<Language>
          label="Language"
          selected={language}
          onSelect={setLanguage}
          options={(["typescript", "python", "go", "java"] as const).map((name) => [
            name,
            verificationSnippets[name].language
          ])}
        />
      </div>
      <p className="quiet small">
        Verify the raw body before it is parsed, with the endpoint&apos;s signing secret.
      </p>
      <CopyButton label="Copy the snippet" caption="Copy" text={verificationSnippets[language].code} />
      <pre className="snippet">
        <code>{verificationSnippets[language].code}</code>
      </pre>
    </section>
  )
}
