select * from {{ source('published', 'sales_all') }}
where revenue not between revenue_lower and revenue_upper
