select * from {{ source('published', 'revenue_all') }}
where revenue not between revenue_lower and revenue_upper
