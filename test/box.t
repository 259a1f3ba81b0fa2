#!/bin/sh
exec test/t-box
