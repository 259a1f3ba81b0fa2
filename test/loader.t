#!/bin/sh
exec test/t-loader
