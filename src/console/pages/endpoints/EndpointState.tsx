import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import type { EndpointHealth } from "../../../api/console/Deliveries.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { consoleClient } from "../../state/consoleClient.ts"
import { Badge } from "../../ui/Badge.tsx"
import { Sparkline } from "../../ui/charts/Sparkline.tsx"
import { Countdown, RelativeTime, TimeOfDay } from "../../ui/Time.tsx"
import { UntrustedText } from "../../ui/UntrustedText.tsx"

/** The health of every endpoint, by id. */
export const endpointHealthAtom = Atom.make(
  Effect.map(
    consoleClient.deliveries.health(),
    ({ endpoints }) => new Map(endpoints.map((health) => [health.endpoint_id, health]))
  )
)

/** Below this share of successful attempts, an endpoint does not count as healthy, whatever its last attempt. */
const HEALTHY_SHARE = 0.95

/** Attempts of the last 24 hours, and the share that succeeded; `undefined` without attempts. */
export const successShare = ({ hours }: EndpointHealth): number | undefined => {
  const delivered = hours.reduce((sum, hour) => sum + hour.delivered, 0)
  const all = hours.reduce((sum, hour) => sum + hour.delivered + hour.failed, 0)
  return all === 0 ? undefined : delivered / all
}

/** Whether too many attempts of the last 24 hours failed. */
export const isUnreliable = (health: EndpointHealth | undefined): boolean => {
  const share = health === undefined ? undefined : successShare(health)
  return share !== undefined && share < HEALTHY_SHARE
}

/** Rounds down, so that 100 % means that nothing failed. */
const percent = (share: number): string => `${(Math.floor(share * 1_000) / 10).toLocaleString("en")} %`

/** The state of an endpoint as a badge: enabled, disabled, failing since when and why, unreliable, or cooling down. */
export const EndpointState = ({
  endpoint,
  health
}: {
  readonly endpoint: NotificationEndpoint
  readonly health: EndpointHealth | undefined
}) => {
  if (!endpoint.active) return <Badge tone="quiet">Disabled</Badge>
  if (endpoint.awaits_verification) return <Badge tone="wait">Not verified</Badge>
  const failing =
    health === undefined || health.failing_since === null ? null : (
      <Badge tone="bad">
        {/* One element: a badge puts space between its children. */}
        <span>
          Failing since <TimeOfDay time={health.failing_since} />
          {health.last_error === null ? null : (
            <>
              , <UntrustedText text={health.last_error} />
            </>
          )}
        </span>
      </Badge>
    )
  if (endpoint.cooldown_until !== null) {
    return (
      <>
        {failing}{" "}
        <Badge tone="wait">
          Cooling down, <Countdown until={endpoint.cooldown_until} suffix=" left" />
        </Badge>
      </>
    )
  }
  if (failing !== null) return failing
  if (endpoint.consecutive_failures > 0) return <Badge tone="bad">Failing</Badge>
  const share = health === undefined ? undefined : successShare(health)
  return share !== undefined && isUnreliable(health) ? (
    <Badge tone="wait">Unreliable, {percent(share)} succeeded</Badge>
  ) : (
    <Badge tone="good">Enabled</Badge>
  )
}

/** The attempts of the last 24 hours as a line, the share that succeeded, and the last success. */
export const EndpointFigures = ({ health }: { readonly health: EndpointHealth | undefined }) => {
  if (health === undefined) return null
  const share = successShare(health)
  const values = health.hours.map(({ delivered, failed }) => delivered + failed)
  const failed = health.hours.reduce((sum, hour) => sum + hour.failed, 0)
  return (
    <p className="endpoint-figures quiet small">
      {share === undefined ? (
        <span>No attempts in 24 hours</span>
      ) : (
        <>
          <Sparkline
            values={values}
            tone={failed > 0 ? "bad" : "good"}
            label={`Attempts per hour in the last 24 hours, at most ${Math.max(...values)} in one`}
          />
          <span>{percent(share)} succeeded in 24 hours</span>
        </>
      )}
      {health.last_success_at === null ? null : (
        <span>
          last success <RelativeTime time={health.last_success_at} />
        </span>
      )}
    </p>
  )
}
