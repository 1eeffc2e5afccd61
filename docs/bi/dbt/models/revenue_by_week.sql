-- Two intervals of 95 % hold both their numbers with probability 90 % at least, and so the change.
-- Of other rows than the total, only those by contribution = "share" can be compared between weeks.
with weeks as (
    select
        period_start as week, revenue, revenue_lower, revenue_upper,
        lag(period_start) over (order by period_start) as week_before,
        lag(revenue) over (order by period_start) as revenue_before,
        lag(revenue_lower) over (order by period_start) as lower_before,
        lag(revenue_upper) over (order by period_start) as upper_before
    from {{ source('published', 'revenue_all') }}
    where level = 0
)

select
    week, revenue, revenue_lower, revenue_upper,
    case when week - week_before = 7 then revenue - revenue_before end as change,
    case when week - week_before = 7 then revenue_lower - upper_before end as change_lower,
    case when week - week_before = 7 then revenue_upper - lower_before end as change_upper
from weeks
