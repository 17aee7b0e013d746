import { DeliveredEventType, type LoggedDeliveryStatus } from "../../../api/console/Deliveries.ts"
import type { NotificationEndpoint } from "../../../domain/delivery/NotificationEndpoint.ts"
import { InlineSelect } from "../../ui/Select.tsx"
import { Button } from "../../ui/Button.tsx"
import { DayField } from "../../ui/DayField.tsx"
import { Tabs } from "../../ui/Tabs.tsx"
import { countFilters, Toolbar } from "../../ui/Toolbar.tsx"
import type { SetQuery } from "../../ui/useQueryState.ts"
import type { QueryState } from "../../state/queryState.ts"
import { type DeliveryQueryFields, isFiltered } from "./deliveryFilter.ts"

/** Response codes that receivers often answer; others are in the address. */
const CODES = [0, 200, 202, 204, 301, 302, 400, 401, 403, 404, 410, 422, 429, 500, 502, 503, 504]

/** The filters of the log. `endpoints`: those to choose from; without them, the log is of one endpoint. */
export const DeliveryFilters = ({
  endpoints,
  query,
  setQuery
}: {
  readonly endpoints?: ReadonlyArray<NotificationEndpoint>
  readonly query: QueryState<DeliveryQueryFields>
  readonly setQuery: SetQuery<DeliveryQueryFields>
}) => {
  const { code, endpoint, from, status, to, type } = query
  const codes =
    code === undefined || CODES.includes(code) ? CODES : [...CODES, code].toSorted((a, b) => a - b)
  return (
    <Toolbar label="Filters of deliveries" filters={countFilters(type, code, endpoint, from, to)}>
      <Tabs<LoggedDeliveryStatus | "all">
        label="Delivery status"
        selected={status ?? "all"}
        onSelect={(name) => setQuery({ status: name === "all" ? undefined : name })}
        options={[
          ["all", "All"],
          ["failed", "Failed"],
          ["pending", "Pending"],
          ["delivered", "Delivered"]
        ]}
      />
      <InlineSelect
        label="Event"
        value={type}
        options={[[undefined, "any"], ...DeliveredEventType.literals.map((name) => [name, name] as const)]}
        onChange={(value) => setQuery({ type: value })}
      />
      <InlineSelect
        label="Response"
        value={code}
        options={[
          [undefined, "any"],
          ...codes.map((one) => [one, one === 0 ? "none" : String(one)] as const)
        ]}
        onChange={(value) => setQuery({ code: value })}
      />
      {endpoints === undefined ? null : (
        <InlineSelect
          label="Endpoint"
          value={endpoint}
          options={[
            [undefined, "any"],
            ...endpoints.map((one) => [one.id, one.description ?? one.url_hint] as const)
          ]}
          onChange={(value) => setQuery({ endpoint: value })}
        />
      )}
      <DayField label="From" day={from} onChange={(day) => setQuery({ from: day })} />
      <DayField label="Until" day={to} onChange={(day) => setQuery({ to: day })} />
      {isFiltered(query) ? (
        <Button
          small
          onClick={() =>
            setQuery({
              status: undefined,
              code: undefined,
              type: undefined,
              endpoint: undefined,
              from: undefined,
              to: undefined
            })
          }
        >
          Clear filters
        </Button>
      ) : null}
    </Toolbar>
  )
}
